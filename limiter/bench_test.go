// What a decision costs by each path, for one caller and for several.

package limiter_test

import (
	"context"
	"testing"

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
		{"module", limiter.New(client, limiter.WithPath(limiter.PathModule))},
		{"script", limiter.New(client, limiter.WithPath(limiter.PathScript))},
		{"autopipeline", limiter.New(pipelining)},
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
