package soak_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/lease"
)

const span = 50 * time.Millisecond  // d of the leases
const slack = 20 * time.Millisecond // tokens of a caller that took longer are not counted

var leasedLimit = limiter.PerSecond(200)

// A bound checks how many tokens callers get. If it does not count some, it is weaker, but never wrong.
type bound struct {
	tokens atomic.Int64
	mutex  sync.Mutex
	level  float64
	last   time.Time
}

// add counts tokens that a caller may use from the instant since on.
func (b *bound) add(tokens int, since time.Time) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	if now.Sub(since) > slack {
		return nil
	}
	b.tokens.Add(int64(tokens))
	perSecond := float64(leasedLimit.Count) / leasedLimit.Period.Seconds()
	b.level, b.last = max(0, b.level-now.Sub(b.last).Seconds()*perSecond)+float64(tokens), now
	if most := float64(leasedLimit.Capacity) + (span+slack).Seconds()*perSecond; b.level > most {
		return fmt.Errorf("leases let through %.1f tokens at once, more than %.1f", b.level, most)
	}
	return nil
}

// callByLeases starts callers of leases that share a key, some by the module and some by the script.
func (s *soak) callByLeases() {
	rdb := redis.NewClient(&redis.Options{Addr: "the primary", PoolSize: 10,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.primary.Load().Addr())
		}})
	s.Cleanup(func() { s.end(); rdb.Close() })
	for i := range 8 {
		path := []limiter.Source{limiter.FromModule, limiter.FromScript}[i%2]
		leases := lease.New(limiter.New(rdb, limiter.WithSource(path)), span)
		for range 2 {
			s.repeat(func() error { return s.useLease(leases) })
		}
	}
}

// useLease lets leases take tokens ahead, waits until the funnel is empty, and then uses all there is. An
// error, as in a failover, grants nothing.
func (s *soak) useLease(leases *lease.Leases) error {
	const cycle, burst, again = 3 * time.Second, 40 * time.Millisecond, 1500 * time.Millisecond
	calls, pause := 0, time.Duration(0)
	switch part := time.Duration(time.Now().UnixNano()) % cycle; {
	case part < burst:
		calls, pause = 1, 5*time.Millisecond
	case part < again:
		pause = again - part
	case part < again+burst:
		calls, pause = 60, burst
	default:
		pause = cycle - part
	}
	time.Sleep(pause)
	for range calls {
		sent := time.Now()
		result, _ := leases.Allow(context.Background(), "leased", leasedLimit)
		if err := s.leased.add(result.Allowed, sent); err != nil {
			return err
		}
	}
	return nil
}
