package lease_test

import (
	"testing"
	"time"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

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
