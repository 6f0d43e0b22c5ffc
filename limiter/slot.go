package limiter

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"funnel/limiter/internal/backend"
)

// A Slot is held from [Limiter.TryAcquire] or [Limiter.Acquire] until it is released or lost. All methods may be called
// from any number of goroutines.
//
// Until then the Slot renews itself each third of its TTL, even if the context of that call is done. It is lost if
// Redis says so, if Redis has answered no renewal within the TTL, or if the process stood still for longer than the
// TTL.
type Slot struct {
	hold
	ctx    context.Context
	cancel context.CancelCauseFunc
	ends   atomic.Int64 // the time from taken until the slot is lost, unless it is renewed

	asking  chan struct{}   // a lock that testing/synctest can wait for: full while a call on the slot is under way
	backend backend.Backend // counts the slot; nil if nobody counts it, and once it is given back
	timer   *time.Timer     // of the next renewal; nil once the slot is released
	asked   bool            // an earlier Release has asked, and got no decision
}

// newSlot returns the slot that a source has given. Nobody counts a slot of FailOpen.
func (h *hold) newSlot(ctx context.Context, source string) *Slot {
	s := &Slot{hold: *h, asking: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.ends.Store(math.MaxInt64)
	switch source {
	case backend.Open:
	case backend.Local:
		s.keep(h.limiter.local)
	default:
		s.keep(h.limiter.shared)
	}
	return s
}

// keep makes the slot renew itself by the backend that counts it.
func (s *Slot) keep(by backend.Backend) {
	s.backend = by
	s.ends.Store(int64(s.slots.TTL))
	s.asking <- struct{}{} // the timer may be due at once
	defer func() { <-s.asking }()
	s.timer = time.AfterFunc(s.slots.TTL/3-time.Since(s.taken), s.renew)
}

// Context returns a context that derives from the context of the call that took the slot. It is also done when the slot
// is released or lost; the cause is [ErrSlotLost] if it was lost. Work that goes on after that is not counted.
//
// After a pause of the whole process, a context from an earlier call of Context may stay alive for some milliseconds:
// call Context again before a step that cannot be undone.
func (s *Slot) Context() context.Context {
	s.cancelIfLost()
	return s.ctx
}

// cancelIfLost returns the time until the slot is lost. If that time is over, it ends the context.
func (s *Slot) cancelIfLost() (left time.Duration) {
	left = time.Duration(s.ends.Load()) - time.Since(s.taken)
	if left <= 0 {
		s.cancel(ErrSlotLost)
	}
	return left
}

// renew renews the slot once. If Redis does not answer, the next renewal follows soon.
func (s *Slot) renew() {
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	sent, left, ttl := time.Since(s.taken), s.cancelIfLost(), s.slots.TTL
	if s.timer == nil || left <= 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(s.ctx), left, ErrSlotLost)
	defer cancel()
	reply, err := s.limiter.decide(ctx, s.backend, s.renewal())
	next := ttl / 10
	switch {
	case err != nil:
	case reply.Limited || !reply.First.Held:
		s.ends.Store(0)
	default:
		s.ends.Store(int64(sent + ttl))
		next = sent + ttl/3 - time.Since(s.taken)
	}
	left = s.cancelIfLost()
	if left > 0 {
		s.timer.Reset(min(next, left))
	}
}

// Release gives the slot back and ends its Context. It waits for a renewal that is under way, and then for the answer
// of Redis, whether or not ctx is done: for each no longer than [WithTimeout] allows.
//
// [ErrSlotLost] means that the slot had been lost before, and that other holders may have worked at the same time. (It
// may also mean that go-redis has repeated the call after a lost answer.) [ErrUnavailable] means that Redis has not
// decided: call Release again, or the slot ends with its TTL. Once Redis has decided, Release does nothing.
func (s *Slot) Release(ctx context.Context) error {
	s.cancel(context.Canceled)
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.backend == nil {
		return nil
	}
	reply, err := s.limiter.decide(context.WithoutCancel(ctx), s.backend, s.refund())
	if err != nil {
		s.asked = true
		return err
	}
	s.backend = nil
	s.wakeLine(reply)
	if !reply.First.Held && !s.asked {
		return ErrSlotLost
	}
	return nil
}
