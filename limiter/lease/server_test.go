// On a server without the module, what the script grants is kept ahead by the clock of this process. A decision
// from it allocates nothing, takes tokens that no other caller gets, and the Limiter settles it.

package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

func TestByScript(t *testing.T) {
	client := servertest.Start(t, servertest.Options{}).Client(t)
	l := limiter.New(client)
	leases, limit := lease.New(l, time.Hour), limiter.Per(1_000_000, 24*time.Hour)
	var result limiter.Result
	for range 10 {
		result, _ = leases.AllowN(ctx, "key", limit, 10_000)
	}
	require.Equal(t, limiter.FromLease, result.Source)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if result, err := leases.Allow(ctx, "key", limit); err != nil || result.Source != limiter.FromLease {
			t.Error(result, err)
		}
	}))

	var receipts sync.Map
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5000 {
				own, err := leases.Allow(ctx, "key", limit)
				if _, others := receipts.LoadOrStore(own.Receipt, true); others || err != nil {
					t.Error("two callers have one token", own, err)
				}
			}
		})
	}
	callers.Wait()

	before, _ := client.Get(ctx, "key").Int64()
	_, err := l.Settle(ctx, &result, 4000)
	require.NoError(t, err)
	after, _ := client.Get(ctx, "key").Int64()
	require.Equal(t, 6000*int64(24*time.Hour)/1_000_000, before-after)
	require.Equal(t, []int64{4000, 0}, []int64{int64(result.Allowed), result.Receipt})

	leases = lease.New(l, 20*time.Millisecond)
	for _, source := range []limiter.Source{limiter.FromLease, limiter.FromScript} {
		servertest.Eventually(t, string(source), func() bool {
			result, err := leases.Allow(ctx, "short", limiter.PerSecond(1_000_000))
			return err == nil && result.Source == source
		})
	}
}
