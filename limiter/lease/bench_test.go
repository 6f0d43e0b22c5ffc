package lease

import (
	"context"
	"math"
	"testing"
	"time"

	"funnel/limiter"
)

// What a call costs that the lease decides: by a token ahead, and by the last reply.
func BenchmarkAllow(b *testing.B) {
	limit := limiter.PerSecond(1000).WithCapacity(1000)
	for _, c := range []struct {
		name string
		set  func(next *state)
		ok   bool
	}{
		{"taken ahead", func(next *state) { next.grants = next.grants.with(math.MaxInt, 0, 0, math.MaxInt64) }, true},
		{"rejected", func(next *state) { next.reply.rejectAll = math.MaxInt64 }, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := New(noLimiter{}, time.Hour)
			l := s.find(limiter.Request{Key: "key", Limit: limit})
			next := *l.state.Load()
			c.set(&next)
			l.state.Store(&next)
			b.ReportAllocs()
			for b.Loop() {
				result, err := s.Allow(context.Background(), "key", limit)
				if err != nil || result.OK != c.ok {
					b.Fatalf("%+v, %v", result, err)
				}
			}
		})
	}
}
