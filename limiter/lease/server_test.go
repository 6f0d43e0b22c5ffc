// On servers, by module and by script: leases keep the bound, take nothing from their grants that is allocated,
// and what they hand out is settled by their Limiter. For a d of 0, test/model has the order of calls.

package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

func TestOnServers(t *testing.T) {
	for path, client := range map[limiter.Path]*redis.Client{
		limiter.PathModule: servertest.StartClient(t), limiter.PathScript: servertest.Start(t, servertest.Options{}).Client(t),
	} {
		const span = 20 * time.Millisecond
		var allowed, byLease, byReply atomic.Int64
		l := limiter.New(client)
		leases := lease.New(l, span, lease.WithHook(func(_ context.Context, event limiter.Event) {
			by := map[limiter.Path]*atomic.Int64{limiter.PathLease: &byLease, path: &byReply}[event.Result.Path]
			by.Add(int64(event.Result.Allowed))
			if event.Duration < 0 || event.Duration > time.Minute {
				t.Error(event)
			}
		}))
		var callers sync.WaitGroup
		begin := time.Now()
		for range 8 {
			callers.Go(func() {
				for range 50 {
					result, err := leases.Allow(ctx, "ahead", limiter.PerSecond(1000).Burst(100))
					if err != nil {
						t.Error(err)
					}
					allowed.Add(int64(result.Allowed))
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, allowed.Load(), 101+int64((time.Since(begin)+span)/time.Millisecond), path)
		require.Positive(t, byLease.Load(), path)

		leases, many := lease.New(l, time.Hour), limiter.Per(1_000_000, 24*time.Hour)
		var result limiter.Result
		for range 10 {
			result, _ = leases.AllowN(ctx, "key", many, 10_000)
		}
		require.Equal(t, limiter.PathLease, result.Path)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if result, err := leases.Allow(ctx, "key", many); err != nil || result.Path != limiter.PathLease {
				t.Error(result, err)
			}
		}))

		before, _ := client.Get(ctx, "key").Int64()
		_, err := l.Settle(ctx, &result, 4000)
		require.NoError(t, err)
		after, _ := client.Get(ctx, "key").Int64()
		require.Equal(t, 6000*int64(24*time.Hour)/1_000_000, before-after, path)
		require.Equal(t, []int64{4000, 0}, []int64{int64(result.Allowed), result.Receipt})
	}
}

// Callers of one hot key, which allows all calls: -cpu says how many run at a time.
func BenchmarkHotKey(b *testing.B) {
	leases := lease.New(limiter.New(servertest.StartClient(b)), 50*time.Millisecond)
	limit := limiter.PerSecond(100_000_000).Burst(50_000_000)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(callers *testing.PB) {
		for callers.Next() {
			if result, err := leases.Allow(ctx, "key", limit); err != nil || result.Limited() {
				b.Error(result, err)
			}
		}
	})
}
