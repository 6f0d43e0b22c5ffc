package limiter_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// Calls of one goroutine, and of several, against a server on this machine. For benchstat:
//
//	go test -run '^$' -bench . -count 10 ./limiter
func BenchmarkAllow(b *testing.B) {
	client, limit := servertest.StartClient(b), limiter.PerMinute(30).Burst(15)
	pipelining, err := redis.NewClient(client.Options()).AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	defer pipelining.Close()
	for _, c := range []struct {
		name string
		l    *limiter.Limiter
	}{
		{"module", limiter.New(client, limiter.WithModuleOnly())},
		{"script", limiter.New(client, limiter.WithScriptOnly())},
		{"autopipeline", limiter.New(pipelining)},
		{"prefilter", limiter.New(client, limiter.WithPrefilter())},
		{"local", limiter.NewLocal()},
	} {
		call := func(b *testing.B) {
			if _, err := c.l.Allow(context.Background(), c.name, limit); err != nil {
				b.Error(err)
			}
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b)
				}
			})
		})
	}
}

func BenchmarkAllowMany(b *testing.B) {
	l := limiter.New(servertest.StartClient(b))
	requests := make([]limiter.Request, 10)
	for i := range requests {
		requests[i] = limiter.Request{Key: string(rune('a' + i)), Limit: limiter.PerMinute(30), Quantity: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.AllowMany(context.Background(), requests...); err != nil {
			b.Fatal(err)
		}
	}
}

// The memory of a lease: what a key takes, and what of it is left when all are idle.
func BenchmarkMemoryOfLeases(b *testing.B) {
	const keys = 100_000
	ctx, limit, now := context.Background(), limiter.PerMinute(30).Burst(15), time.Now()
	l := limiter.New(servertest.StartClient(b), limiter.WithLease(time.Second))
	limiter.SetNow(l, func() time.Time { return now })
	heap := func() float64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	begin := heap()
	for i := range keys {
		_, _ = l.Allow(ctx, fmt.Sprintf("%016d", i), limit)
	}
	b.ReportMetric((heap()-begin)/keys, "B/key")
	for range keys / 100 {
		now = now.Add(3 * time.Second)
		_, _ = l.Allow(ctx, "another", limit)
	}
	b.ReportMetric((heap()-begin)/keys, "B/idle-key")
}
