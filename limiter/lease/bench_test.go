// What a decision by a lease costs.

package lease_test

import (
	"context"
	"testing"
	"time"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// A generous Limiter grants all that is asked for, as Redis does if the funnel is empty.
type generous struct{}

func (generous) AllowN(_ context.Context, key string, limit limiter.Limit, n int) (limiter.Result, error) {
	return limiter.Result{Key: key, Limit: limit, Quantity: n, Allowed: n, Remaining: limit.Capacity - n,
		OK: true, Receipt: time.Now().UnixNano(), Source: limiter.FromModule}, nil
}

func (g generous) AllowAtMost(ctx context.Context, key string, limit limiter.Limit, n int) (limiter.Result, error) {
	return g.AllowN(ctx, key, limit, n)
}

// BenchmarkHotKey measures callers of one key whose tokens are ahead. -cpu says how many run at a time.
func BenchmarkHotKey(b *testing.B) {
	leases := lease.New(generous{}, 50*time.Millisecond)
	limit := limiter.PerSecond(100_000_000).WithCapacity(50_000_000)
	b.ReportAllocs()
	b.RunParallel(func(callers *testing.PB) {
		for callers.Next() {
			result, err := leases.Allow(context.Background(), "key", limit)
			if err != nil || result.Limited() {
				b.Error(result, err)
			}
		}
	})
}
