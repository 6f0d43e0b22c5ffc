// A refund whose answer is lost is not sent again by any client of go-redis, and is an error. The
// server has executed it.

package limiter_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

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

// requireOneRefund loses the answer of a refund, which is sent after prepare.
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
		addr := direct.Options().Addr
		require.NoError(t, direct.ScriptLoad(context.Background(), limiter.Script()).Err()) // whose text has the word
		client := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: addr, Dialer: dialLossy(t, addr)}) }
		pipelining, err := client().AutoPipeline()
		require.NoError(t, err)
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, Dialer: dialLossy(t, addr)})
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
