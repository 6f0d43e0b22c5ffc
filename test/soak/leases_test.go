package soak_test

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// callByLeases starts callers of leases that share a key, some by the module and some by the script. An error,
// as in a failover, grants nothing. [TestLeasesKeepTheirBound] checks how much they may grant.
func (s *soak) callByLeases() {
	rdb := redis.NewClient(&redis.Options{Addr: "the primary", PoolSize: 10,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.primary.Load().Addr())
		}})
	s.Cleanup(func() { s.end(); rdb.Close() })
	for i := range 8 {
		path := []limiter.Source{limiter.FromModule, limiter.FromScript}[i%2]
		leases := lease.New(limiter.New(rdb, limiter.WithSource(path)), 50*time.Millisecond)
		for range 2 {
			s.repeat(func() error {
				time.Sleep(rand.N(100 * time.Millisecond))
				result, _ := leases.Allow(context.Background(), "leased", limiter.PerSecond(200))
				s.leased.Add(int64(result.Allowed))
				return nil
			})
		}
	}
}
