package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"funnel/limiter"
)

// A lease decides the calls for one key and limit. It decides a call by its state, or puts the caller into the queue,
// to wait for a call for tokens (ask.go). Instants are durations since the Leases were made.
type lease struct {
	leases   *Leases
	request  limiter.Request // the key and the limit: the quantity is 0
	maxAhead int             // how many tokens may be ahead
	demand   demand
	state    atomic.Pointer[state]
	asking   atomic.Bool // a call for tokens is under way
	mutex    sync.Mutex  // guards the queue, and changes of the state
	queue    []*waiter   // callers for the next call for tokens
}

// A state is the knowledge of a lease. Callers read it without the mutex. A state that is stored never changes, except
// that callers take tokens from its grants.
type state struct {
	request    limiter.Request
	grants     grants
	refill     refill
	reply      lastReply
	aloneUntil time.Duration // until then callers ask alone, after an error
}

// A waiter is a caller in the queue.
type waiter struct {
	ctx      context.Context
	quantity int
	done     chan outcome // of one element
}

// An outcome is the answer to a caller. The zero outcome makes the caller ask alone.
type outcome struct {
	result     limiter.Result
	err        error
	isReported bool // the Limiter's hooks have got it already
}

func (o *outcome) isZero() bool { return !o.isReported && o.err == nil && o.result.Source == "" }

// find returns the lease of a key and limit, or nil if the limit is not valid. If it makes a new lease, it removes idle
// leases.
func (s *Leases) find(request limiter.Request) *lease {
	s.mutex.RLock()
	l := s.leases.Get(request)
	s.mutex.RUnlock()
	if l != nil {
		return l
	}
	rate, err := request.Limit.Rate()
	if err != nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l = s.leases.Get(request)
	if l != nil {
		return l
	}
	now, interval := s.now(), time.Duration(rate.EmissionInterval())
	l = &lease{leases: s, request: request}
	l.maxAhead = int(min(time.Duration(request.Limit.Capacity/10), s.span/interval))
	l.state.Store(&state{request: request, grants: grants{interval: interval}})
	s.leases.Add(request, l, func(_ limiter.Request, other *lease) bool { return other.isIdle(now) })
	return l
}

// isIdle reports whether the lease can be forgotten.
func (l *lease) isIdle(now time.Duration) bool {
	known, lastCall := l.state.Load(), time.Duration(l.demand.lastCall.Load())
	return !l.asking.Load() && (now-lastCall)/2 > l.leases.span &&
		now >= known.aloneUntil && known.reply.rejectedFor(now, 1) <= 0
}

// allow decides a call, and returns when the call began. It leaves got zero if the caller has to ask alone.
func (l *lease) allow(ctx context.Context, quantity int, got *outcome) (began time.Duration) {
	known := l.state.Load()
	began = l.leases.now() // after reading the state: no earlier than the calls that took its tokens
	l.demand.add(began, l.leases.span, quantity)
	if known.tryLocal(began, quantity, &got.result) {
		if known.refill.isDue(began, &known.grants) {
			l.startAsking()
		}
		return began
	}
	if ctx.Value(l.leases) != nil { // the caller is a hook, for which a call for tokens waits
		return began
	}
	w := &waiter{ctx, quantity, make(chan outcome, 1)}
	l.enqueue(w)
	select {
	case *got = <-w.done:
	case <-ctx.Done():
		l.leave(w, got)
	}
	return began
}

// enqueue puts a caller into the queue, and makes sure that a call asks for its tokens.
func (l *lease) enqueue(w *waiter) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.queue = append(l.queue, w)
	l.startAsking()
}

// leave is for a caller that gives up. The caller gets its outcome if there is one already. Otherwise its tokens go to
// other callers, because its context is done.
func (l *lease) leave(w *waiter, got *outcome) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	select {
	case *got = <-w.done:
	default:
	}
}

// tryLocal decides a call without Redis if there are tokens ahead, or if Redis would certainly limit the call. While
// callers ask alone after an error, it also returns true, and leaves the result empty.
func (s *state) tryLocal(at time.Duration, quantity int, result *limiter.Result) (decided bool) {
	if s.take(at, quantity, limiter.FromLease, result) || at < s.aloneUntil {
		return true
	}
	retryAfter := s.reply.rejectedFor(at, quantity)
	if retryAfter <= 0 {
		return false
	}
	s.reject(at, quantity, limiter.FromLease, retryAfter, result)
	return true
}

// decideByReply decides the call of a caller that waited for the last reply, at the instant when the call for tokens
// was sent.
func (s *state) decideByReply(quantity int, result *limiter.Result) {
	at, source := s.reply.sent, s.reply.result.Source
	if !s.take(at, quantity, source, result) {
		s.reject(at, quantity, source, max(s.reply.rejectedFor(at, quantity), 1), result)
	}
}

// take allows a call if there are enough tokens ahead.
func (s *state) take(at time.Duration, quantity int, source limiter.Source, result *limiter.Result) bool {
	receipt, taken := s.grants.take(at, quantity)
	if taken {
		s.describe(at, quantity, source, result)
		result.Allowed, result.OK, result.Receipt = quantity, true, receipt
	}
	return taken
}

// reject limits a call.
func (s *state) reject(at time.Duration, quantity int, source limiter.Source, after time.Duration, result *limiter.Result) {
	s.describe(at, quantity, source, result)
	result.RetryAfter = after
}

// describe sets the fields that all results have: the call, its source, and the state of the funnel. Tokens ahead fill
// the funnel in Redis, but callers here can still get them: they count as remaining.
func (s *state) describe(at time.Duration, quantity int, source limiter.Source, result *limiter.Result) {
	capacity, remaining := s.request.Limit.Capacity, s.reply.result.Remaining
	result.Key, result.Limit, result.Quantity, result.Source = s.request.Key, s.request.Limit, quantity, source
	result.Remaining = remaining + min(s.grants.ahead(at), capacity-remaining)
	result.ResetAfter = s.reply.resetAfter(at)
}
