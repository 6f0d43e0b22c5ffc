// Package lease limits hot keys with few calls to Redis. Its [Leases] take tokens ahead for the
// callers of this process and hand them out without Redis. Callers that would ask Redis at the same
// time share a call.
//
//	leases := lease.New(l, 50*time.Millisecond)
//	result, err := leases.Allow(ctx, "tenant:42", limiter.PerSecond(2000).WithCapacity(400))
//
// The second argument of New is called d, here 50 ms. A hot key costs about two calls to Redis in
// d, whatever the number of callers, if a tenth of the capacity lasts for d. Leases follow the
// demand of the last d, and ask for more before their tokens are used up, so callers do not wait.
// Tokens that are not used within d expire.
//
// The bound: in any stretch of time, all processes together hand out at most capacity + (elapsed +
// d) / T tokens. T is the emission interval, the time in which one token leaks, and d is the
// largest d of all processes. Without leases the bound is capacity + elapsed / T: tokens ahead may
// be used up to d after they have been taken.
//
// After a limited reply, the Leases limit calls that Redis would certainly limit, without asking.
// If Redis had too few tokens for a shared call, the Leases limit all calls for d, or for the time
// in which half of the capacity leaks if that is shorter. Either ends after 5 seconds at the
// latest. With a d of 0, Leases take nothing ahead: they only limit without asking.
//
// If Redis fails, callers get tokens ahead until these expire. All other callers ask the Limiter
// alone, for a second.
package lease

import (
	"context"
	"sync"
	"time"

	"funnel/internal/idle"
	"funnel/internal/isnil"
	"funnel/limiter"
)

// A Limiter decides calls: a [limiter.Limiter], or a wrapper of one.
type Limiter interface {
	AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
	AllowAtMost(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
}

// Leases decide calls as their Limiter does, with fewer calls to Redis. Make them with [New]. All
// methods may be called from any number of goroutines.
type Leases struct {
	limiter Limiter
	span    time.Duration // d
	hook    limiter.Hook
	now     func() time.Duration // since the Leases were made, by the monotonic clock
	mutex   sync.RWMutex
	leases  idle.Map[limiter.Request, *lease] // by key and limit: the quantity is 0
}

// An Option changes how [Leases] work.
type Option func(*Leases)

// WithHook sets the hook for decisions of the Leases. Event.Command is reserve, and Event.Key has
// no prefix. The decisions of the Limiter's AllowN, and the calls for tokens (as take), go to the
// hooks of the Limiter alone.
//
// A hook that calls the Leases must pass its context on. If a hook of the Leases panics, the caller
// gets the panic. If a hook of the Limiter panics during a call for tokens, the program crashes,
// because such a call has no caller.
func WithHook(hook limiter.Hook) Option { return func(s *Leases) { s.hook = hook } }

// New returns Leases that ask l, and hand out tokens within d after they have taken them. If d is 0
// or less, they take nothing ahead. Give l [limiter.WithTimeout], which bounds calls for tokens.
// New panics if l is nil.
func New(l Limiter, d time.Duration, options ...Option) *Leases {
	if isnil.Is(l) {
		panic("lease: New needs a Limiter, not nil")
	}
	began := time.Now()
	s := &Leases{limiter: l, span: min(max(d, 0), 1<<62), now: func() time.Duration { return time.Since(began) }}
	for _, option := range options {
		option(s)
	}
	return s
}

// Allow is AllowN of one token.
func (s *Leases) Allow(ctx context.Context, key string, limit limiter.Limit) (limiter.Result, error) {
	return s.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, all or none, as [limiter.Limiter.AllowN] does. The Limiter alone
// decides calls for a quota, for 0 tokens, and for more than one token if that is above a tenth of
// the capacity or d is 0.
//
// Decisions without a reply of Redis have the source [limiter.FromLease]. Their Remaining is the
// Remaining of the last reply plus the tokens ahead. Their ResetAfter is the ResetAfter of the last
// reply less the time since. [limiter.Limiter.Settle] settles them.
func (s *Leases) AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
	l := s.leaseFor(ctx, key, limit, quantity)
	if l == nil {
		return s.limiter.AllowN(ctx, key, limit, quantity) // it also returns the errors for a wrong ctx or limit
	}
	known, began := l.begin(quantity)
	found, verdict := known.tryLocal(began, quantity)
	switch verdict {
	case decided:
		l.refill(known, began)
		result := known.result(found, began, quantity, limiter.FromLease)
		s.report(ctx, &result, began)
		return result, nil
	case askRedis:
		got := l.wait(ctx, quantity)
		if got.verdict != decided {
			break
		}
		if !got.isReported {
			s.report(ctx, &got.result, began)
		}
		return got.result, got.err
	}
	return s.limiter.AllowN(ctx, key, limit, quantity)
}

// report tells the hook of a decision of the Leases.
func (s *Leases) report(ctx context.Context, result *limiter.Result, began time.Duration) {
	if s.hook == nil {
		return
	}
	s.hook(ctx, limiter.Event{
		Command:  "reserve",
		Key:      result.Key,
		Result:   *result,
		Limited:  result.Limited(),
		Duration: s.now() - began,
	})
}

// leaseFor returns the lease that decides a call, or nil if the Limiter alone decides it.
func (s *Leases) leaseFor(ctx context.Context, key string, limit limiter.Limit, quantity int) *lease {
	if ctx.Err() != nil || !s.isFor(limit, quantity) {
		return nil
	}
	return s.find(limiter.Request{Key: key, Limit: limit})
}

// isFor reports whether leases decide a call for that quantity.
func (s *Leases) isFor(limit limiter.Limit, quantity int) bool {
	return quantity == 1 || quantity > 1 && quantity <= limit.Capacity/10 && s.span > 0
}
