// Settle gives back what a call took and did not use, or charges what it used beyond, by one command.
// Without a receipt nothing is given back. A Result is settled once a command may have been sent. No
// client of go-redis sends a refund again whose answer is lost.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	prefix := limiter.WithPrefix("p:")
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		address, sent := servertest.HideCommands(t, client.Options().Addr, "cl.none")
		rdb := redis.NewClient(&redis.Options{Addr: address, DB: client.Options().DB})
		t.Cleanup(func() { rdb.Close() })
		require.NoError(t, client.ScriptLoad(t.Context(), limiter.Script()).Err())
		testSettle(t, limiter.New(rdb, prefix), path, func() (lines string) {
			for _, words := range sent() {
				if path == limiter.PathScript && len(words) > 5 { // EVALSHA, its hash, 1, the key, the operation, ...
					words = slices.Concat([]string{"cl." + words[4], words[3]}, words[5:])
				}
				lines += strings.Join(words, " ") + "\n"
			}
			return lines
		})
	})
	t.Run("NewLocal", func(t *testing.T) { testSettle(t, limiter.NewLocal(prefix), limiter.PathLocal, nil) })
	t.Run("FailLocal", func(t *testing.T) {
		testSettle(t, limiter.New(unreachable(t), prefix, limiter.OnFailure(limiter.FailLocal)), limiter.PathLocal, nil)
	})
}

// testSettle takes n tokens in each row, and settles them. Sent, where something is, returns the
// commands that were sent since it was called last.
func testSettle(t *testing.T, l *limiter.Limiter, path limiter.Path, sent func() string) {
	ctx, day := t.Context(), fifteenPerDay
	reserve, take, charge, peek := commands["reserve"], commands["take"], commands["charge"], commands["peek"]
	later := func(l *limiter.Limiter, key string, n int) (limiter.Result, error) {
		_, _ = reserve(l, key, 15)
		return l.Reserve(ctx, key, day, n, 48*time.Hour)
	}
	several := func(l *limiter.Limiter, key string, n int) (limiter.Result, error) {
		results, err := l.AllowAll(ctx, limiter.Request{key + "'", perDay(30), 1}, limiter.Request{key, day, n})
		return results[1], err
	}
	for _, c := range []struct {
		name    string
		take    ask
		n, used int
		want    string // the operation and its quantity
	}{
		{"all used", reserve, 10, 10, ""},
		{"some used", reserve, 10, 4, "refund 6"},
		{"more used", reserve, 10, 20, "charge 10"},
		{"taken in part, some used", take, 20, 4, "refund 11"},
		{"reserved for later", later, 12, 0, "refund 12"},
		{"charged, some used", charge, 20, 3, "refund 17"},
		{"one of several, some used", several, 10, 4, "refund 6"},
		{"limited", reserve, 16, 0, ""},
		{"peeked, and used", peek, 1, 3, "charge 3"},
	} {
		result, err := c.take(l, c.name, c.n)
		require.NoError(t, err, c.name)
		given := result
		if sent != nil {
			_ = sent()
		}
		settled, err := l.Settle(ctx, &result, c.used)
		require.NoError(t, err, c.name)
		if c.want == "" {
			require.Equal(t, []limiter.Result{given, given}, []limiter.Result{settled, result}, c.name)
			continue
		}
		operation, quantity := "", 0
		_, _ = fmt.Sscan(c.want, &operation, &quantity)
		words := []any{"cl." + operation, "p:" + c.name, 15, 15, 86400, quantity}
		reset := given.ResetAfter + time.Duration(quantity)*96*time.Minute
		if operation == "refund" {
			words, reset = append(words, given.Receipt), given.ResetAfter-time.Duration(quantity)*96*time.Minute
		}
		if sent != nil {
			require.Equal(t, fmt.Sprintln(words...), sent(), c.name)
		}
		require.Equal(t, []any{c.name, day, quantity, quantity, path},
			[]any{settled.Key, settled.Limit, settled.Quantity, settled.Allowed, settled.Path}, c.name)
		if given.ResetAfter > 0 {
			require.InDelta(t, reset, settled.ResetAfter, float64(time.Minute), c.name)
		}

		// Again.
		given.Allowed, given.Receipt = c.used, 0
		require.Equal(t, given, result, c.name)
		for _, used := range []int{c.used, 0} {
			settled, err = l.Settle(ctx, &result, used)
			require.NoError(t, err, c.name)
			require.Equal(t, []limiter.Result{given, given}, []limiter.Result{settled, result}, c.name)
		}
		if sent != nil {
			require.Empty(t, sent(), c.name)
		}
	}

	// What is wrong changes nothing.
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

// Decisions without Redis have no receipt, and an error of Redis is Settle's, whatever the policy.
func TestSettleWithoutAReceipt(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), servertest.StartModule(t)
	rdb, admin := as(t, server, "+@all", "~*"), server.Client(t)
	for policy, allowed := range map[limiter.FailurePolicy]int{limiter.FailOpen: 5, limiter.FailClosed: 0} {
		key, l := policy.String(), limiter.New(rdb, limiter.OnFailure(policy))
		require.NoError(t, admin.ACLSetUser(ctx, "app", "-@all").Err())
		result, err := l.AllowN(ctx, key, fifteenPerDay, 5)
		require.NoError(t, err)
		require.Equal(t, []any{allowed, int64(0), limiter.Path(key)}, []any{result.Allowed, result.Receipt, result.Path})
		failed := result
		_, err = l.Settle(ctx, &failed, allowed+2)
		require.ErrorContains(t, err, "NOPERM", key)
		require.Equal(t, allowed+2, failed.Allowed, "it was sent")

		require.NoError(t, admin.ACLSetUser(ctx, "app", "+@all").Err())
		settled, err := l.Settle(ctx, &result, 0)
		require.NoError(t, err)
		require.Equal(t, result, settled)
		settled, err = l.Settle(ctx, &result, allowed+2)
		require.NoError(t, err)
		require.Equal(t, []int{2, 13}, []int{settled.Allowed, settled.Remaining}, key)
	}
}

// A Result is settled once a command may have been sent, and not while nothing was.
func TestSettledWhenSent(t *testing.T) {
	t.Parallel()
	ctx, server, reason := t.Context(), servertest.StartModule(t), errors.New("the reason")
	canceled, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	l := limiter.New(server.Client(t, once))
	clock := startClock(l)
	last := allow(t, l, "key", fifteenPerDay)
	settle := func(ctx context.Context, want error, isSettled bool) {
		t.Helper()
		result := last
		_, err := l.Settle(ctx, &result, 0)
		require.ErrorIs(t, err, want)
		require.Equal(t, isSettled, result.Allowed == 0)
		require.Equal(t, isSettled, result.Receipt == 0)
	}
	settle(canceled, reason, false)

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	short, cancelShort := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancelShort()
	settle(short, context.DeadlineExceeded, true)
	server.Kill()
	for range 3 {
		settle(ctx, syscall.ECONNREFUSED, true)
	}
	settle(ctx, syscall.ECONNREFUSED, false) // the breaker is open
	server.Restart(t)
	clock.advance(time.Second)
	settle(ctx, nil, true)

	l = limiter.NewLocal()
	last = allow(t, l, "key", fifteenPerDay)
	settle(canceled, reason, false)
	result := last
	_, err := l.Settle(ctx, &result, 1_500_000)
	require.ErrorIs(t, err, gcra.ErrTAT)
	require.Equal(t, last, result)
	settle(ctx, nil, true)
}

// A Result decided without Redis has no receipt of an answer that comes after it.
func TestLateAnswersHaveNoReceipt(t *testing.T) {
	t.Parallel()
	for _, policy := range []limiter.FailurePolicy{limiter.FailOpen, limiter.FailLocal} {
		ctx, server := context.Background(), servertest.StartModule(t)
		client := server.Client(t)
		require.Zero(t, client.Exists(ctx, "key").Val(), "it is connected")
		answered := func(context.Context, limiter.Event) {
			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "it has been executed", func() bool { return client.Exists(ctx, "key").Val() > 0 })
			time.Sleep(20 * time.Millisecond) // the answer is read
		}
		timeout := limiter.WithTimeout(50 * time.Millisecond)
		l := limiter.New(client, timeout, limiter.OnFailure(policy), limiter.WithHook(answered))
		require.NoError(t, server.Signal(syscall.SIGSTOP))
		given, err := l.AllowN(ctx, "key", fifteenPerDay, 10)
		require.NoError(t, err)
		require.Equal(t, 10, given.Allowed)
		require.Equal(t, policy == limiter.FailOpen, given.Receipt == 0, policy)
		stored := client.Get(ctx, "key").Val()
		require.NotEqual(t, stored, fmt.Sprint(given.Receipt))
		_, err = l.Settle(ctx, &given, 0)
		require.NoError(t, err)
		require.Equal(t, stored, client.Get(ctx, "key").Val(), "nothing is given back")
	}
}

// dialLossy connects to servers, and loses one's answer to the first refund.
func dialLossy(t *testing.T, server string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	lossy := servertest.LoseAnswer(t, server, "refund")
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(server, addr) { // go-redis leaves the host out where it is that of ClusterSlots
			addr = lossy
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}

// requireOneRefund loses the answer of a refund, which is sent after prepare. The server has executed
// it, and the error is the client's.
func requireOneRefund(t *testing.T, direct, lossy limiter.Client, key string, path limiter.Path, prepare func()) {
	t.Helper()
	ctx, l, refunding := context.Background(), limiter.New(direct), limiter.New(lossy, limiter.WithPath(path))
	_, err := l.Charge(ctx, key, fifteenPerDay, 4)
	require.NoError(t, err)
	charged, err := refunding.Charge(ctx, key, fifteenPerDay, 5)
	require.NoError(t, err)
	prepare()
	_, err = refunding.Settle(ctx, &charged, 3)
	require.ErrorIs(t, err, io.EOF, key)
	_, err = refunding.Settle(ctx, &charged, 3)
	require.NoError(t, err, key)
	peeked, err := l.Peek(ctx, key, fifteenPerDay)
	require.NoError(t, err)
	require.Equal(t, 8, peeked.Remaining, "%s: 6 and 2", key)
	again, err := commands["refund"](refunding, key, 1)
	require.NoError(t, err)
	require.Equal(t, 9, again.Remaining, key)
}

func TestRefundsAreSentOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, direct *redis.Client, path limiter.Path) {
		addr, db := direct.Options().Addr, direct.Options().DB
		require.NoError(t, direct.ScriptLoad(context.Background(), limiter.Script()).Err()) // whose text has the word
		client := func() *redis.Client {
			return redis.NewClient(&redis.Options{Addr: addr, DB: db, Dialer: dialLossy(t, addr)})
		}
		pipelining, err := client().AutoPipeline()
		require.NoError(t, err)
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, DB: db, Dialer: dialLossy(t, addr)})
		for name, lossy := range map[string]interface {
			limiter.Client
			Close() error
		}{"client": client(), "autopipeline": pipelining, "ring": ring} {
			requireOneRefund(t, direct, lossy, name, path, func() {})
			require.NoError(t, lossy.Close())
		}
	})
}

// requireOneRefundInACluster also has the client follow redirections, before which nothing was
// executed.
func requireOneRefundInACluster(t *testing.T, cluster *servertest.Cluster) {
	for _, primary := range cluster.Primaries {
		require.NoError(t, primary.Direct.ScriptLoad(context.Background(), limiter.Script()).Err())
	}
	for _, path := range []limiter.Path{limiter.PathModule, limiter.PathScript} {
		for _, redirection := range []string{"none", "moved", "ask"} {
			key := redirection + string(path)
			slot := cluster.Slot(t, key)
			owner, other := cluster.Owner(slot), cluster.Primaries[0]
			if owner == other {
				other = cluster.Primaries[1]
			}
			executes, prepare, slots := owner, func() {}, []redis.ClusterSlot(nil)
			switch redirection {
			case "moved":
				slots = []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: other.Addr()}}}}
			case "ask":
				move := cluster.Move(slot, owner, other)
				executes, prepare = other, func() { move.Begin(t); move.MoveKeys(t, 1) }
			}
			lossy := cluster.Client(t, func(options *redis.ClusterOptions) {
				options.Dialer = dialLossy(t, executes.Addr())
				if slots != nil {
					options.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil }
				}
			})
			requireOneRefund(t, cluster.Client(t), lossy, key, path, prepare)
		}
	}
}
