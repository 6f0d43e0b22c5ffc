package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// requireOneRefund requires that a refund whose answer is lost, by Refund or Settle, is not
// sent again, and returns an error. The server has executed it.
func requireOneRefund(t *testing.T, direct, lossy limiter.Client, key string, path limiter.Path, settles bool, prepare func()) {
	t.Helper()
	ctx, l, refunding := context.Background(), limiter.New(direct), limiter.New(lossy, only[path], limiter.WithPrefilter())
	_, err := l.Charge(ctx, key, fifteenPerDay, 4)
	require.NoError(t, err)
	charged, err := refunding.Charge(ctx, key, fifteenPerDay, 5) // which learns how the capacity is read
	require.NoError(t, err)
	prepare()
	refund := func() error { _, err := refunding.Refund(ctx, key, fifteenPerDay, 2); return err }
	if settles {
		refund = func() error { _, err := refunding.Settle(ctx, &charged, 3); return err }
	}
	lost := refund()
	if settles {
		require.ErrorIs(t, refund(), limiter.ErrSettled)
	}
	peeked, err := l.Peek(ctx, key, fifteenPerDay)
	require.NoError(t, err)
	require.Equal(t, 8, peeked.Remaining, "%s: 6 and 2", key)
	require.ErrorIs(t, lost, io.EOF, key)
	allowed, err := refunding.AllowN(ctx, key, fifteenPerDay, 8)
	require.NoError(t, err)
	require.Equal(t, 8, allowed.Allowed, "also by the prefilter")
	again, err := refunding.Refund(ctx, key, fifteenPerDay, 1)
	require.NoError(t, err)
	require.Equal(t, 1, again.Remaining)
}

func TestRefundsAreSentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, direct *redis.Client, path limiter.Path) {
		addr := direct.Options().Addr
		require.NoError(t, direct.ScriptLoad(context.Background(), limiter.Script()).Err()) // whose text has the word
		client := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: addr, Dialer: dialLossy(t, addr)}) }
		for _, settles := range []bool{false, true} {
			pipelining, err := client().AutoPipeline()
			require.NoError(t, err)
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, Dialer: dialLossy(t, addr)})
			for name, lossy := range map[string]interface {
				limiter.Client
				Close() error
			}{"client": client(), "autopipeline": pipelining, "ring": ring} {
				requireOneRefund(t, direct, lossy, fmt.Sprint(name, settles), path, settles, func() {})
				require.NoError(t, lossy.Close())
			}
		}
	})
}

// A Result is settled once a command may have been sent, and not while nothing was.
func TestSettledWhenSent(t *testing.T) {
	ctx, now, server, reason := t.Context(), time.Now(), servertest.StartModule(t), errors.New("the reason")
	canceled, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailOpen))
	limiter.SetNow(l, func() time.Time { return now })
	var results [6]limiter.Result
	settle := func(ctx context.Context, i int) error { _, err := l.Settle(ctx, &results[i], 0); return err }
	for i := range results {
		results[i] = allow(t, l, "key", fifteenPerDay)
	}
	require.ErrorIs(t, settle(canceled, 0), reason)
	require.NoError(t, settle(ctx, 0))

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	short, cancelShort := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancelShort()
	require.ErrorIs(t, settle(short, 1), context.DeadlineExceeded)
	require.ErrorIs(t, settle(ctx, 1), limiter.ErrSettled)
	server.Kill()
	for i := range 3 {
		require.Error(t, settle(ctx, 2+i), "no policy")
		require.ErrorIs(t, settle(ctx, 2+i), limiter.ErrSettled)
	}
	require.ErrorIs(t, settle(ctx, 5), syscall.ECONNREFUSED, "the breaker")
	server.Restart(t)
	now = now.Add(time.Second)
	require.NoError(t, settle(ctx, 5))

	l = limiter.NewLocal()
	results[0] = allow(t, l, "key", fifteenPerDay)
	require.ErrorIs(t, settle(canceled, 0), reason)
	_, err := l.Settle(ctx, &results[0], 1_500_000)
	require.ErrorIs(t, err, gcra.ErrTAT)
	require.NoError(t, settle(ctx, 0))
	require.ErrorIs(t, settle(ctx, 0), limiter.ErrSettled)
}

// In a cluster the client also follows redirections, before which nothing was executed.
func TestRefundsAreSentOnceInACluster(t *testing.T) {
	cluster := servertest.StartCluster(t, 2, 5*time.Second, servertest.Options{Module: servertest.Module(t)})
	for _, primary := range cluster.Primaries {
		require.NoError(t, primary.Direct.ScriptLoad(context.Background(), limiter.Script()).Err())
	}
	for _, path := range []limiter.Path{limiter.PathModule, limiter.PathScript} {
		for _, way := range []string{"direct", "moved", "ask"} {
			key := way + string(path)
			slot := cluster.Slot(t, key)
			owner, other := cluster.Owner(slot), cluster.Primaries[0]
			if owner == other {
				other = cluster.Primaries[1]
			}
			executes, prepare, slots := owner, func() {}, []redis.ClusterSlot(nil)
			switch way {
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
			requireOneRefund(t, cluster.Client(t), lossy, key, path, true, prepare)
		}
	}
}
