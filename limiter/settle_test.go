// Settle gives back the tokens that a call took and did not use, or charges the tokens that it used
// beyond, by one command. Without a receipt nothing is given back. A Result is settled once a
// command may have been sent. If the answer to a refund is lost, no client of go-redis sends the
// refund again.

package limiter_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		testSettle(t, source, func(options ...limiter.Option) *limiter.Limiter { return limiter.New(client, options...) })
	})
	t.Run("NewLocal", func(t *testing.T) { testSettle(t, limiter.FromLocal, limiter.NewLocal) })
	t.Run("FailLocal", func(t *testing.T) {
		testSettle(t, limiter.FromLocal, func(options ...limiter.Option) *limiter.Limiter {
			return limiter.New(unreachable(t), append(options, limiter.OnFailure(limiter.FailLocal))...)
		})
	})
}

// testSettle takes n tokens of a funnel in each row, and settles them, and then once more.
func testSettle(t *testing.T, source limiter.Source, make func(...limiter.Option) *limiter.Limiter) {
	ctx, day := t.Context(), fifteenPerDay
	var recorded recorder
	l := make(limiter.WithPrefix("p:"), limiter.WithHook(recorded.hook))
	reserve, take, peek := methods["reserve"], methods["take"], methods["peek"]
	later := func(l *limiter.Limiter, key string, n int) (limiter.Result, error) {
		_, _ = reserve(l, key, 15)
		return l.Reserve(ctx, key, day, n, 48*time.Hour)
	}
	several := func(l *limiter.Limiter, key string, n int) (limiter.Result, error) {
		results, err := l.AllowAll(ctx, limiter.Request{key + "'", perDay(30), 1}, limiter.Request{key, day, n})
		return results[1], err
	}
	leaked := func(l *limiter.Limiter, key string, n int) (limiter.Result, error) {
		result, err := reserve(l, key, n)
		result.Receipt = 1 // as if the funnel had been empty again in 1970
		return result, err
	}
	for _, c := range []struct {
		name      string
		take      ask
		n, used   int
		operation string // which settles them, or none
		quantity  int
		level     int // tokens that the funnel holds afterwards
	}{
		{"all used", reserve, 10, 10, "", 0, 10},
		{"some used", reserve, 10, 4, "refund", 6, 4},
		{"more used", reserve, 10, 20, "charge", 10, 20},
		{"taken in part, some used", take, 20, 4, "refund", 11, 4},
		{"reserved for later", later, 12, 0, "refund", 12, 15},
		{"one of several, some used", several, 10, 4, "refund", 6, 4},
		{"leaked, some used", leaked, 10, 4, "refund", 6, 10},
		{"limited", reserve, 16, 0, "", 0, 0},
		{"peeked, and used", peek, 1, 3, "charge", 3, 3},
	} {
		result, err := c.take(l, c.name, c.n)
		require.NoError(t, err, c.name)
		given, before := result, len(recorded.all())
		requireNothing := func(used int) {
			settled, err := l.Settle(ctx, &result, used)
			require.NoError(t, err, c.name)
			require.Equal(t, []limiter.Result{given, given}, []limiter.Result{settled, result}, c.name)
			require.Len(t, recorded.all(), before, c.name)
		}
		if c.operation != "" {
			settled, err := l.Settle(ctx, &result, c.used)
			require.NoError(t, err, c.name)
			event := recorded.last()
			require.Equal(t, []any{c.operation, "p:" + c.name, settled}, []any{event.Command, event.Key, event.Result}, c.name)
			require.Equal(t, []any{c.name, day, c.quantity, c.quantity, source},
				[]any{settled.Key, settled.Limit, settled.Quantity, settled.Allowed, settled.Source}, c.name)
			given.Allowed, given.Receipt, before = c.used, 0, before+1
			requireNothing(0)
		}
		requireNothing(c.used)
		peeked, err := l.Peek(ctx, c.name, day)
		require.NoError(t, err, c.name)
		require.InDelta(t, time.Duration(c.level)*96*time.Minute, peeked.ResetAfter, float64(time.Minute), c.name)
	}

	// A wrong call changes nothing.
	result, err := reserve(l, "wrong", 10)
	require.NoError(t, err)
	given := result
	_, err = l.Settle(ctx, &result, -1)
	require.ErrorContains(t, err, `limiter: key "wrong": the number of used tokens must be at least 0, not -1`)
	_, err = l.Settle(ctx, &result, math.MaxInt)
	require.ErrorContains(t, err, "quantity 9223372036854775797 of a limit of")
	_, err = l.Settle(ctx, nil, 0)
	require.ErrorContains(t, err, "limiter: Settle needs a Result, not nil")
	require.Equal(t, given, result)
}

// Decisions without Redis have no receipt. Settle returns an error of Redis, whatever the policy.
// Another Limiter may settle a Result.
func TestSettleWithoutAReceipt(t *testing.T) {
	t.Parallel()
	ctx, another := t.Context(), limiter.New(connect(t, limiter.FromModule))
	for policy, allowed := range map[limiter.FailurePolicy]int{limiter.FailOpen: 5, limiter.FailClosed: 0} {
		key, l := policy.String(), limiter.New(unreachable(t), limiter.OnFailure(policy))
		result, err := l.AllowN(ctx, key, fifteenPerDay, 5)
		require.NoError(t, err)
		require.Equal(t, []any{allowed, int64(0), limiter.Source(key)}, []any{result.Allowed, result.Receipt, result.Source})
		failed := result
		_, err = l.Settle(ctx, &failed, allowed+2)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, key)

		settled, err := another.Settle(ctx, &result, 0)
		require.NoError(t, err)
		require.Equal(t, result, settled)
		settled, err = another.Settle(ctx, &result, allowed+2)
		require.NoError(t, err)
		require.Equal(t, []int{2, 13}, []int{settled.Allowed, settled.Remaining}, key)
	}
}

// A Result is settled once a command may have been sent, and not while nothing was.
func TestSettledWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, reason := context.Background(), errors.New("the reason")
		canceled, cancel := context.WithCancelCause(ctx)
		cancel(reason)
		short, cancelShort := context.WithTimeout(ctx, time.Second/2)
		defer cancelShort()
		denied := servertest.ErrorReply("NOPERM User app has no permissions to access one of the keys")
		failure := error(denied)
		var hangs atomic.Bool
		l := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error {
			reserve, isReserve := command.(*redis.Cmd)
			switch {
			case isReserve:
				reserve.SetVal(allows)
				return nil
			case hangs.Load():
				<-ctx.Done()
				return ctx.Err()
			}
			return failure
		}))
		settle := func(l *limiter.Limiter, last limiter.Result, ctx context.Context, want error, isSettled bool) {
			result := last
			_, err := l.Settle(ctx, &result, 0)
			require.ErrorIs(t, err, want)
			require.Equal(t, isSettled, result.Allowed == 0, "Allowed %d after %v", result.Allowed, err)
			require.Equal(t, isSettled, result.Receipt == 0, "Receipt %d after %v", result.Receipt, err)
		}
		last := allow(t, l, "key", fifteenPerDay)
		settle(l, last, canceled, reason, false)
		hangs.Store(true)
		settle(l, last, short, context.DeadlineExceeded, true)
		hangs.Store(false)
		settle(l, last, ctx, denied, true)
		failure = syscall.ECONNREFUSED
		for range 3 {
			settle(l, last, ctx, syscall.ECONNREFUSED, true)
		}
		settle(l, last, ctx, syscall.ECONNREFUSED, false) // the breaker is open

		local := limiter.NewLocal()
		last = allow(t, local, "key", fifteenPerDay)
		settle(local, last, canceled, reason, false)
		result := last
		_, err := local.Settle(ctx, &result, 1_500_000)
		require.ErrorIs(t, err, gcra.ErrTAT)
		require.ErrorContains(t, err, `limiter: key "key": `)
		require.Equal(t, last, result)
		settle(local, last, ctx, nil, true)
		time.Sleep(time.Second) // the command that hangs ends with the time-out
	})
}

// dialLossy returns a dialer that loses the answer of a server to the first refund.
func dialLossy(t *testing.T, server string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	lossy := servertest.LoseAnswer(t, server, "refund")
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(server, addr) { // go-redis leaves the host out where it is that of ClusterSlots
			addr = lossy
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}

// requireOneRefund loses the answer to a refund. The server has executed the refund, and the client
// returns an error.
func requireOneRefund(t *testing.T, direct, lossy limiter.Client, key string, limit limiter.Limit,
	source limiter.Source) {
	ctx, l := context.Background(), limiter.New(direct)
	refunding := limiter.New(lossy, limiter.WithSource(source))
	_, err := l.Charge(ctx, key, limit, 4)
	require.NoError(t, err)
	charged, err := refunding.Charge(ctx, key, limit, 5)
	require.NoError(t, err)
	_, err = refunding.Settle(ctx, &charged, 3)
	require.ErrorIs(t, err, io.EOF, key)
	_, err = refunding.Settle(ctx, &charged, 3)
	require.NoError(t, err, key)
	peeked, err := l.Peek(ctx, key, limit)
	require.NoError(t, err)
	require.Equal(t, 8, peeked.Remaining, "%s: 6 remain after both charges, and 2 are refunded once", key)
	again, err := methodsFor(limit)["refund"](refunding, key, 1)
	require.NoError(t, err)
	require.Equal(t, 9, again.Remaining, "%s: a refund of 1 whose answer is not lost", key)
}

func TestRefundsAreSentOnce(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, direct *redis.Client, source limiter.Source) {
		addr, db := direct.Options().Addr, direct.Options().DB
		require.NoError(t, direct.ScriptLoad(context.Background(), limiter.Script()).Err()) // whose text has the word
		client := func() *redis.Client {
			return redis.NewClient(&redis.Options{Addr: addr, DB: db, Dialer: dialLossy(t, addr)})
		}
		pipelining, err := client().AutoPipeline()
		require.NoError(t, err)
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, DB: db, Dialer: dialLossy(t, addr)})
		quota := limiter.Daily(15, noon())
		for _, c := range []struct {
			name  string
			limit limiter.Limit
			lossy interface {
				limiter.Client
				Close() error
			}
		}{
			{"client", fifteenPerDay, client()}, {"client, quota", quota, client()},
			{"autopipeline", fifteenPerDay, pipelining}, {"ring", fifteenPerDay, ring},
		} {
			requireOneRefund(t, direct, c.lossy, c.name, c.limit, source)
			require.NoError(t, c.lossy.Close())
		}
	})
}

// requireOneRefundInACluster makes the client follow a redirection. Nothing was executed before the
// redirection.
func requireOneRefundInACluster(t *testing.T, cluster *servertest.Cluster) {
	for _, source := range []limiter.Source{limiter.FromModule, limiter.FromScript} {
		key := "moved by " + string(source)
		owner := cluster.Owner(cluster.Slot(t, key))
		require.NoError(t, owner.Direct.ScriptLoad(context.Background(), limiter.Script()).Err())
		other := cluster.Primaries[0]
		if owner == other {
			other = cluster.Primaries[1]
		}
		slots := []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: other.Addr()}}}}
		lossy := cluster.Client(t, func(options *redis.ClusterOptions) {
			options.Dialer = dialLossy(t, owner.Addr())
			options.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil }
		})
		requireOneRefund(t, cluster.Client(t), lossy, key, fifteenPerDay, source)
	}
}

// SettleSoon does not wait for Redis, whatever becomes of its context, and Drain does.
func TestSettleSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := false
		l := limiter.NewLocal(limiter.WithHook(func(context.Context, limiter.Event) {
			if slow {
				time.Sleep(time.Second)
			}
		}))
		result := allow(t, l, "key", fifteenPerDay)
		slow = true
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		l.SettleSoon(ctx, result, 0)
		require.Equal(t, began, time.Now())
		left, err := l.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Equal(t, began.Add(time.Second), time.Now())
		slow = false
		seen, err := l.Peek(t.Context(), "key", fifteenPerDay)
		require.NoError(t, err)
		require.Equal(t, 15, seen.Remaining)
	})
}
