package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// slack is how late a caller may be to count: the instant of each call is known as well as that.
const slack = 20 * time.Millisecond

// A bound watches how many tokens callers get. What it does not count makes it weaker, never wrong.
type bound struct {
	limit limiter.Limit
	more  time.Duration // beside the capacity, at any time

	mutex sync.Mutex
	level float64 // tokens
	last  time.Time
}

// add is told of tokens that a caller may use from an instant on; or gets back, below 0.
func (b *bound) add(tokens int, since time.Time) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	if tokens > 0 && now.Sub(since) > slack {
		return nil
	}
	perSecond := float64(b.limit.Count) / b.limit.Period.Seconds()
	b.level = max(0, b.level-now.Sub(b.last).Seconds()*perSecond)
	b.level, b.last = max(0, b.level+float64(tokens)), now
	if most := float64(b.limit.Capacity) + (b.more+slack).Seconds()*perSecond; b.level > most {
		return fmt.Errorf("%v let through %.1f tokens at once, more than %.1f", b.limit, b.level, most)
	}
	return nil
}

// callByLimiters starts callers with leases, with reservations and with slots, each on a key of its own.
func (s *soak) callByLimiters() {
	rdb := redis.NewClient(&redis.Options{Addr: "the primary", MaxRetries: -1, PoolSize: 10,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.primary.Load().Addr())
		}})
	s.t.Cleanup(func() { s.workers.Wait(); rdb.Close() })
	limiters := []*limiter.Limiter{limiter.New(rdb, limiter.WithPath(limiter.PathModule)), limiter.New(rdb, limiter.WithPath(limiter.PathScript))}
	const d = 50 * time.Millisecond
	leased := &bound{limit: limiter.PerSecond(200), more: d}
	reserved := &bound{limit: limiter.PerSecond(50).Burst(10)}
	held := holders{slots: map[*limiter.Slot]bool{}}
	for i := range 8 {
		l := limiters[i%2]
		leases := lease.New(l, d)
		for range 2 {
			s.repeat(0, func() error { return s.useLease(leases, leased) })
		}
		s.repeat(1, func() error { return s.useReservation(l, reserved) })
		s.repeat(2, func() error { return s.useSlot(l, &held) })
	}
}

// repeat repeats calls of a kind. They may fail for a few seconds after a failover.
func (s *soak) repeat(kind int, call func() error) {
	s.workers.Go(func() {
		for s.ctx.Err() == nil && !s.t.Failed() {
			err := call()
			s.mutex.Lock()
			switch {
			case err == nil:
				s.direct[kind]++
			case time.Since(time.Unix(0, s.moved.Load())) < 5*time.Second:
				s.errors++
			default:
				s.t.Error(err)
			}
			s.mutex.Unlock()
		}
	})
}

// useLease lets leases take ahead, be idle until the funnel is empty, and then use all there is.
func (s *soak) useLease(leases *lease.Leases, bound *bound) error {
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
		result, err := leases.Allow(context.Background(), "leased", bound.limit)
		if err != nil {
			return err
		}
		if err := s.fatal(bound.add(result.Allowed, sent)); err != nil {
			return err
		}
	}
	return nil
}

// useReservation waits for its turn, or gives it back.
func (s *soak) useReservation(l *limiter.Limiter, bound *bound) error {
	sent := time.Now()
	result, err := l.Reserve(context.Background(), "reserved", bound.limit, 1+rand.IntN(2), time.Second)
	if err != nil || result.Allowed == 0 {
		time.Sleep(rand.N(200 * time.Millisecond))
		return err
	}
	turn := time.Now().Add(result.Wait) // or up to a round trip ago
	if rand.IntN(8) == 0 {
		time.Sleep(rand.N(result.Wait + 1))
		tokens := result.Allowed
		_ = bound.add(-tokens, sent)
		_, err := l.Settle(context.Background(), &result, 0)
		_ = bound.add(-tokens, sent) // it may have been executed at any time between
		return err
	}
	time.Sleep(time.Until(turn))
	err = s.fatal(bound.add(result.Allowed, sent.Add(result.Wait)))
	time.Sleep(rand.N(200 * time.Millisecond))
	return err
}

// useSlot holds a slot, some longer than its ttl. The slots that are not lost are never more than the limit.
func (s *soak) useSlot(l *limiter.Limiter, held *holders) error {
	slot, _, err := l.Acquire(context.Background(), "slots", limiter.Slots{Limit: slotsLimit, TTL: time.Second})
	if slot == nil || err != nil {
		time.Sleep(rand.N(100 * time.Millisecond))
		return err
	}
	if running := held.add(slot); running > slotsLimit {
		return s.fatal(fmt.Errorf("%d slots are held", running))
	}
	time.Sleep(rand.N(50 * time.Millisecond))
	if rand.IntN(20) == 0 {
		time.Sleep(1500 * time.Millisecond)
	}
	held.remove(slot)
	return slot.Release(context.Background())
}

// Holders have slots that they have not given back.
type holders struct {
	mutex sync.Mutex
	slots map[*limiter.Slot]bool
}

// add returns how many slots are not lost.
func (h *holders) add(slot *limiter.Slot) (running int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.slots[slot] = true
	for other := range h.slots {
		if other.Context().Err() == nil {
			running++
		}
	}
	return running
}

func (h *holders) remove(slot *limiter.Slot) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.slots, slot)
}

// fatal fails the test for an error that no failover excuses.
func (s *soak) fatal(err error) error {
	if err != nil {
		s.t.Error(err)
	}
	return err
}
