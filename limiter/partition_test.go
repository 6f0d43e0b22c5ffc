// A network that is cut for a moment leaves no slot behind, although TCP sends the commands of its
// callers again when it is back. The test runs once more in a network of its own, whose packets to
// the server are dropped for a time: that needs root, ip and nft.

package limiter_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestAPartitionStrandsNoSlots(t *testing.T) {
	if os.Getenv("FUNNEL_OWN_NETWORK") == "" {
		t.Parallel()
		inOwnNetwork(t)
		return
	}
	nft(t, "add table inet partition")
	for _, length := range []time.Duration{500 * time.Millisecond, 1200 * time.Millisecond, 2 * time.Second} {
		for _, honors := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, ContextTimeoutEnabled %v", length, honors), func(t *testing.T) {
				t.Parallel()
				testPartition(t, length, honors)
			})
		}
	}
}

// inOwnNetwork runs the test in another process, whose network has nothing but a loopback.
func inOwnNetwork(t *testing.T) {
	for _, tool := range []string{"ip", "nft"} {
		_, err := exec.LookPath(tool)
		if err != nil || os.Geteuid() != 0 {
			if os.Getenv("FUNNEL_NETWORK") != "" {
				t.Fatalf("needs root and %s: %v", tool, err)
			}
			t.Skipf("needs root and %s", tool)
		}
	}
	program, err := os.Executable()
	require.NoError(t, err)
	again := exec.Command("sh", "-c", `ip link set lo up && exec "$0" -test.run "^$1$" -test.v`, program, t.Name())
	again.Env = append(os.Environ(), "FUNNEL_OWN_NETWORK=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	output, err := again.CombinedOutput()
	require.NoError(t, err, "%s", output)
	t.Logf("%s", output)
}

func nft(t *testing.T, rule string) {
	t.Helper()
	output, err := exec.Command("nft", rule).CombinedOutput()
	require.NoError(t, err, "nft %s: %s", rule, output)
}

// testPartition cuts the network while callers take slots. All slots are free two tenths of the TTL
// and the length of the cut after the network is back: for that long TCP may wait before it sends
// again.
func testPartition(t *testing.T, length time.Duration, honors bool) {
	const callers = 40
	slots := limiter.Slots{Max: callers, TTL: 10 * time.Second}
	server := servertest.StartModule(t)
	direct := server.Client(t)
	client := server.Client(t, func(options *redis.Options) {
		options.ContextTimeoutEnabled, options.PoolSize, options.MinIdleConns = honors, callers, callers
	})
	l := limiter.New(client, limiter.WithTimeout(100*time.Millisecond))
	ctx := context.Background()
	servertest.Eventually(t, "each caller has a connection", func() bool {
		return client.Ping(ctx).Err() == nil && client.PoolStats().IdleConns >= callers
	})
	chain := fmt.Sprint("inet partition to", server.Port)
	nft(t, "add chain "+chain+" { type filter hook input priority 0; }")
	nft(t, fmt.Sprintf("add rule %s tcp dport %d drop", chain, server.Port))
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			within, cancel := context.WithTimeout(ctx, time.Duration(1+i)*5*time.Millisecond)
			defer cancel()
			got, err := l.TryAcquire(within, slots.At("slots"))
			if err == nil {
				_ = got.Release(ctx)
			}
		})
	}
	group.Wait()
	time.Sleep(length) // the network is cut: there is no condition to wait for
	nft(t, "flush chain "+chain)
	back := time.Now()
	most := int64(0)
	left, err := l.Drain(ctx)
	require.NoError(t, err)
	isFree := func() bool {
		held := direct.ZCard(ctx, "slots").Val()
		most = max(most, held)
		return held == 0
	}
	limit := length + slots.TTL/5
	for time.Since(back) < limit {
		isFree()
		time.Sleep(10 * time.Millisecond)
	}
	require.True(t, isFree(), "slots that are left %v after the network is back, of at most %d", limit, most)
	t.Logf("%d slots were taken by commands that arrived late; %d were uncertain when all was answered once", most, left)
}
