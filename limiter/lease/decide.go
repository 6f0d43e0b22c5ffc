package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"funnel/limiter"
)

// A lease decides the calls for one key and limit: by its state, or it puts the caller into the
// queue, to wait for a call for tokens (ask.go). Instants are durations since the Leases were made.
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

// A state is the knowledge of a lease. Callers read it without the mutex. A state that is stored
// never changes, except that callers take tokens from its grants.
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

// A verdict says who decides a call.
type verdict int

const (
	askAlone verdict = iota // the Limiter, which the caller asks alone
	askRedis                // the next reply of Redis, for which the caller waits
	decided                 // the lease has decided it
)

// An outcome is the answer to a caller. The zero outcome makes the caller ask alone.
type outcome struct {
	verdict    verdict
	result     limiter.Result
	err        error
	isReported bool // the Limiter's hooks have got it already
}

// find returns the lease of a key and limit, or nil if the limit is not valid. If it makes a new
// lease, it removes idle leases.
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

// begin counts a call, and returns the state that decides it, and when the call began.
func (l *lease) begin(quantity int) (known *state, began time.Duration) {
	known = l.state.Load()
	began = l.leases.now() // after reading the state: no earlier than the calls that took its tokens
	l.demand.add(began, l.leases.span, quantity)
	return known, began
}

// refill asks ahead if it is time.
func (l *lease) refill(known *state, at time.Duration) {
	if known.refill.isDue(at, &known.grants) {
		l.startTokenCalls()
	}
}

// wait waits for the reply to a call for tokens. The verdict is never askRedis.
func (l *lease) wait(ctx context.Context, quantity int) outcome {
	if ctx.Value(l.leases) != nil { // the caller is a hook, for which a call for tokens waits
		return outcome{verdict: askAlone}
	}
	w := &waiter{ctx, quantity, make(chan outcome, 1)}
	l.enqueue(w)
	select {
	case got := <-w.done:
		return got
	case <-ctx.Done():
		return l.leave(w)
	}
}

// enqueue puts a caller into the queue, and makes sure that a call asks for its tokens.
func (l *lease) enqueue(w *waiter) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.queue = append(l.queue, w)
	l.startTokenCalls()
}

// leave is for a caller that gives up. The caller gets its outcome if there is one already.
// Otherwise its tokens go to other callers, because its context is done, and the Limiter returns
// the error.
func (l *lease) leave(w *waiter) outcome {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	select {
	case got := <-w.done:
		return got
	default:
		return outcome{verdict: askAlone}
	}
}

// An answer is what the lease decides on a call.
type answer struct {
	allowed    bool
	receipt    int64         // of a call that is allowed
	retryAfter time.Duration // of a call that is not
}

// tryLocal decides a call without Redis if there are tokens ahead, or if Redis would certainly
// limit the call. For a while after an error, callers ask alone.
func (s *state) tryLocal(at time.Duration, quantity int) (answer, verdict) {
	receipt, taken := s.grants.take(at, quantity)
	if taken {
		return answer{allowed: true, receipt: receipt}, decided
	}
	if at < s.aloneUntil {
		return answer{}, askAlone
	}
	retryAfter := s.reply.rejectedFor(at, quantity)
	if retryAfter > 0 {
		return answer{retryAfter: retryAfter}, decided
	}
	return answer{}, askRedis
}

// decideByReply decides the call of a caller that waited for the last reply, at the instant when
// the call for tokens was sent.
func (s *state) decideByReply(quantity int) limiter.Result {
	at := s.reply.sent
	receipt, taken := s.grants.take(at, quantity)
	a := answer{allowed: taken, receipt: receipt}
	if !taken {
		a.retryAfter = max(s.reply.rejectedFor(at, quantity), 1)
	}
	return s.result(a, at, quantity, s.reply.result.Source)
}

// result returns an answer with the call, its source, and the state of the funnel. Tokens ahead
// fill the funnel in Redis, but callers here can still get them: they count as remaining.
func (s *state) result(a answer, at time.Duration, quantity int, source limiter.Source) (result limiter.Result) {
	capacity, remaining := s.request.Limit.Capacity, s.reply.result.Remaining
	result.Key, result.Limit, result.Quantity, result.Source = s.request.Key, s.request.Limit, quantity, source
	result.Remaining = remaining + min(s.grants.ahead(at), capacity-remaining)
	result.ResetAfter = s.reply.resetAfter(at)
	result.OK, result.Receipt, result.RetryAfter = a.allowed, a.receipt, a.retryAfter
	if a.allowed {
		result.Allowed = quantity
	}
	return result
}
