package lease

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"funnel/limiter"
)

// A lease decides the calls for one key and limit. Instants are durations since the Leases began.
type lease struct {
	*Leases
	limiter.Request
	interval time.Duration // T
	most     int           // tokens that may be ahead

	// Demand is counted in windows of time, of d or until the next call.
	window, lastCall, asked, askedBefore atomic.Int64

	state  atomic.Pointer[state]
	asking atomic.Bool // a call for tokens is under way
	mutex  sync.Mutex  // guards the queue, and changes of the state
	queue  []*waiter   // for the next call for tokens
}

// A state is what replies brought. Callers read it without the mutex: only the tokens of its grants change.
type state struct {
	*lease
	grants                  []*grant       // oldest first
	reply                   limiter.Result // the last
	sent, limits, limitsAll time.Duration  // when its call was sent, until when it limits some, and all
	alone                   time.Duration  // until when callers ask alone, after an error

	// The lease asks ahead from that instant on, where fewer than low tokens would last for that time.
	askAhead, early time.Duration
	low             int // as many as are asked for in that time
}

// A grant is tokens ahead. The receipt is for those that are left and all before them.
type grant struct {
	left    atomic.Int64
	last    time.Duration // at which they can be used
	receipt int64
}

type waiter struct {
	ctx      context.Context
	quantity int
	done     chan outcome // of one element
}

// An outcome is what becomes of a caller. One that has neither Path nor error asks alone.
type outcome struct {
	result limiter.Result
	err    error
	told   bool // to the Limiter's hooks
}

// decide decides a call, and returns when it began.
func (s *Leases) decide(ctx context.Context, of limiter.Request, quantity int, got *outcome) (began time.Duration) {
	l := s.find(of)
	if l == nil {
		return 0
	}
	known := l.state.Load()
	began = s.now() // after the state was read: no token is used at an instant before it was taken
	l.count(began, quantity)
	if known.decide(began, quantity, limiter.PathLease, &got.result) {
		if known.isLow(began) && l.asking.CompareAndSwap(false, true) {
			go l.ask()
		}
		return began
	}
	if ctx.Value(s) != nil { // the caller is a hook for which a call for tokens waits
		return began
	}
	w := &waiter{ctx, quantity, make(chan outcome, 1)}
	l.mutex.Lock()
	l.queue = append(l.queue, w)
	if l.asking.CompareAndSwap(false, true) {
		go l.ask()
	}
	l.mutex.Unlock()
	select {
	case *got = <-w.done:
	case <-ctx.Done(): // the tokens are for others, unless it has them already
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if len(w.done) > 0 {
			*got = <-w.done
		}
	}
	return began
}

// find returns the lease of a key and limit, or nil if the limit is not valid. A new lease takes
// the place of others that are idle.
func (s *Leases) find(of limiter.Request) *lease {
	s.mutex.RLock()
	l := s.leases.Get(of)
	s.mutex.RUnlock()
	if l != nil {
		return l
	}
	rate, err := of.Limit.Rate()
	if err != nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if l = s.leases.Get(of); l == nil {
		now := s.now()
		l = &lease{Leases: s, Request: of, interval: time.Duration(rate.EmissionInterval())}
		l.most = int(min(time.Duration(of.Limit.Capacity/10), s.span/l.interval))
		l.state.Store(&state{lease: l})
		s.leases.Add(of, l, func(_ limiter.Request, l *lease) bool {
			state, last := l.state.Load(), time.Duration(l.lastCall.Load())
			return !l.asking.Load() && (now-last)/2 > s.span && now >= state.alone && state.limitedFor(now, 1) <= 0
		})
	}
	return l
}

// count counts the demand.
func (l *lease) count(at time.Duration, quantity int) {
	window := l.window.Load()
	if int64(at)-window >= int64(l.span) && l.window.CompareAndSwap(window, int64(at)) {
		l.askedBefore.Store(l.asked.Swap(0))
	}
	if int64(at)-l.lastCall.Swap(int64(at)) >= int64(l.span) {
		l.askedBefore.Store(0)
	}
	l.asked.Add(int64(quantity))
}

// demand is how many tokens were asked for in the last d, or in this one if that is more.
func (l *lease) demand() int { return int(max(l.asked.Load(), l.askedBefore.Load())) }

// decide decides a call at an instant, unless it has to wait for a reply. A caller who asks
// alone gets no Path. A reply, whose Path is not that of leases, decides all who waited for it.
func (s *state) decide(at time.Duration, quantity int, path limiter.Path, result *limiter.Result) (decided bool) {
	switch {
	case s.take(at, int64(quantity), result):
	case at < s.alone:
		return true
	case s.limitedFor(at, quantity) > 0 || path != limiter.PathLease:
		result.RetryAfter = max(s.limitedFor(at, quantity), 1)
	default:
		return false
	}
	result.Key, result.Limit, result.Quantity, result.Path = s.Key, s.Limit, quantity, path
	result.Remaining = s.reply.Remaining + min(s.ahead(at), s.Limit.Capacity-s.reply.Remaining)
	result.ResetAfter = max(0, s.reply.ResetAfter-(at-s.sent))
	return true
}

// take takes tokens from the oldest grant that holds as many.
func (s *state) take(at time.Duration, quantity int64, result *limiter.Result) (taken bool) {
	for _, from := range s.grants {
		for left := from.left.Load(); left >= quantity && at <= from.last; left = from.left.Load() {
			if left -= quantity; from.left.CompareAndSwap(left+quantity, left) {
				result.Allowed, result.RetryAfter = int(quantity), limiter.NoRetry
				result.Receipt = max(0, from.receipt-left*int64(s.interval))
				return true
			}
		}
	}
	return false
}

// limitedFor is for how long a call is limited without Redis, or not above 0.
func (s *state) limitedFor(at time.Duration, quantity int) time.Duration {
	wait := s.limitsAll - at
	if at < s.limits { // Redis decided after s.sent, so the tokens fit no sooner
		wait = max(wait, time.Duration(quantity-s.Limit.Capacity)*s.interval+max(0, s.reply.ResetAfter-(at-s.sent)))
	}
	return wait
}

func (s *state) ahead(at time.Duration) (ahead int) {
	for _, g := range s.grants {
		if at <= g.last {
			ahead += int(g.left.Load())
		}
	}
	return ahead
}

// isLow reports whether it is time to ask ahead.
func (s *state) isLow(at time.Duration) bool {
	return s.low > 0 && at >= s.askAhead && s.ahead(at+s.early) < s.low
}

// ask makes calls for tokens: one ahead, if it is time, and others until nobody waits. They belong
// to nobody: no caller ends them.
func (l *lease) ask() {
	ctx := context.WithValue(context.Background(), l.Leases, true)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for known, ahead := l.state.Load(), true; ; ahead = false {
		l.queue = known.serve(l.queue, l.now(), outcome{result: limiter.Result{Path: limiter.PathLease}})
		l.state.Store(known) // others take what those who waited have left
		waiters, sent := l.queue, l.now()
		quantity := known.wanted(waiters, sent)
		switch {
		case len(waiters) == 0 && (!ahead || quantity == 0 || !known.isLow(sent)):
			l.asking.Store(false)
			return
		case len(waiters) > 0 && waiters[0].quantity > 1 && known.reply.Allowed < known.reply.Quantity:
			waiters, quantity = waiters[:1:1], waiters[0].quantity // what is taken may be too few for any, and lapse
		}
		l.queue = l.queue[len(waiters):]
		call, shared := l.limiter.AllowN, len(waiters) != 1 || quantity > waiters[0].quantity
		if shared {
			call = l.limiter.AllowAtMost
		}
		l.mutex.Unlock()
		reply, err := call(ctx, l.Key, l.Limit, quantity)
		l.mutex.Lock()
		known = l.learn(reply, err, sent, shared)
		known.serve(waiters, sent, outcome{reply, err, !shared})
	}
}

// wanted is how many tokens to ask for: what waiters want, or half of the demand if that is more.
func (s *state) wanted(waiters []*waiter, at time.Duration) (wanted int) {
	for _, w := range waiters {
		wanted += w.quantity
	}
	return wanted + max(0, min(s.demand()/2-wanted, s.most-s.ahead(at)))
}

// learn returns the state after a call: what it brought, and for how long calls are limited or
// alone because of it.
func (l *lease) learn(reply limiter.Result, err error, sent time.Duration, shared bool) *state {
	next, now := *l.state.Load(), l.now()
	next.limits, next.limitsAll, next.low = 0, 0, 0
	if err != nil || reply.Path != limiter.PathModule && reply.Path != limiter.PathScript {
		next.alone = now + time.Second
		return &next
	}
	const longest = 5 * time.Second
	next.reply, next.sent = reply, sent
	gotLess := reply.Allowed < reply.Quantity
	if gotLess || l.span == 0 { // callers whose tokens cannot fit yet
		next.limits = sent + longest
	}
	if gotLess && shared { // all callers
		next.limitsAll = sent + min(l.span, time.Duration(l.Limit.Capacity)*l.interval/2, longest)
	}
	ended := func(g *grant) bool { return g.left.Load() == 0 || sent > g.last }
	granted := &grant{last: sent + l.span, receipt: reply.Receipt}
	granted.left.Store(int64(reply.Allowed))
	next.grants = append(slices.DeleteFunc(slices.Clone(next.grants), ended), granted)

	if took := now - sent; !gotLess && took < l.span/2 && l.demand()/2 <= l.most {
		next.askAhead, next.early = sent+l.span/3, took+l.span/8 // no more than three calls in d
		next.low = min(int(float64(l.demand())*float64(next.early)/float64(l.span)), l.most/2)
	}
	return &next
}

// serve decides waiters in order, and returns those who have to wait for another reply. A call for
// one caller alone has its very answer.
func (s *state) serve(waiters []*waiter, at time.Duration, answer outcome) []*waiter {
	return slices.DeleteFunc(waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil { // it has given up, or will
			return true
		}
		var got outcome
		decided := s.decide(at, w.quantity, answer.result.Path, &got.result)
		if answer.told {
			got = answer
		}
		if decided {
			w.done <- got
		}
		return decided
	})
}
