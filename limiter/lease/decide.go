package lease

import (
	"context"
	"slices"
	"time"

	"funnel/limiter"
)

// A lease decides the calls for one key and limit. The mutex of the Leases guards it.
type lease struct {
	*Leases
	limiter.Request
	interval time.Duration // T
	grants   []grant       // oldest first
	queue    []*waiter     // for the next call for tokens
	asking   bool          // a call for tokens is under way
	alone    time.Time     // until when callers ask alone, after an error

	// Demand is counted in windows of time, of d or until the next call.
	window, lastCall   time.Time
	asked, askedBefore int

	sent, limits, limitsAll time.Time // when the last call was sent, until when it limits some, and all
	reply                   limiter.Result
}

// A grant is tokens ahead. The receipt is for those that are left and all before them.
type grant struct {
	left    int
	last    time.Time // at which they can be used
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
func (s *Leases) decide(ctx context.Context, of limiter.Request, quantity int, got *outcome) (began time.Time) {
	s.mutex.Lock()
	began = s.now() // under the lock: no token is used at an instant before it was taken
	l := s.find(of, began, quantity)
	if l == nil || l.decideNow(began, quantity, limiter.PathLease, &got.result) || ctx.Value(s) != nil {
		s.mutex.Unlock() // with a value of s, the caller is a hook for which a call for tokens waits
		return began
	}
	w := &waiter{ctx, quantity, make(chan outcome, 1)}
	if l.queue = append(l.queue, w); !l.asking {
		l.asking = true
		go l.ask()
	}
	s.mutex.Unlock()
	select {
	case *got = <-w.done:
	case <-ctx.Done(): // the tokens are for others, unless it has them already
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if len(w.done) > 0 {
			*got = <-w.done
		}
	}
	return began
}

// find returns the lease of a key and limit, or nil if the limit is not valid, and counts the
// demand. A new lease takes the place of others that are idle.
func (s *Leases) find(of limiter.Request, now time.Time, quantity int) *lease {
	l := s.leases.Get(of)
	if l == nil {
		rate, err := of.Limit.Rate()
		if err != nil {
			return nil
		}
		l = &lease{Leases: s, Request: of, interval: time.Duration(rate.EmissionInterval())}
		s.leases.Add(of, l, func(_ limiter.Request, l *lease) bool {
			return !l.asking && now.Sub(l.lastCall)/2 > l.span && !now.Before(l.alone) && l.limitedFor(now, 1) <= 0
		})
	}
	if now.Sub(l.window) >= s.span {
		l.window, l.asked, l.askedBefore = now, 0, l.asked
	}
	if now.Sub(l.lastCall) >= s.span {
		l.askedBefore = 0
	}
	l.lastCall, l.asked = now, l.asked+quantity
	return l
}

// decideNow decides a call at an instant, unless it has to wait for a reply. A caller who asks
// alone gets no Path. A reply, whose Path is not that of leases, decides all who waited for it.
func (l *lease) decideNow(at time.Time, quantity int, path limiter.Path, result *limiter.Result) (decided bool) {
	oldest := slices.IndexFunc(l.grants, func(g grant) bool { return g.left >= quantity && !at.After(g.last) })
	switch {
	case oldest >= 0:
		from := &l.grants[oldest]
		from.left -= quantity
		result.Allowed, result.RetryAfter = quantity, limiter.NoRetry
		result.Receipt = max(0, from.receipt-int64(from.left)*int64(l.interval))
	case at.Before(l.alone):
		return true
	case l.limitedFor(at, quantity) > 0 || path != limiter.PathLease:
		result.RetryAfter = max(l.limitedFor(at, quantity), 1)
	default:
		return false
	}
	result.Key, result.Limit, result.Quantity, result.Path = l.Key, l.Limit, quantity, path
	result.Remaining = l.reply.Remaining + min(l.ahead(at), l.Limit.Capacity-l.reply.Remaining)
	result.ResetAfter = max(0, l.reply.ResetAfter-at.Sub(l.sent))
	return true
}

// limitedFor is for how long a call is limited without Redis, or not above 0.
func (l *lease) limitedFor(at time.Time, quantity int) time.Duration {
	wait := l.limitsAll.Sub(at)
	if at.Before(l.limits) { // Redis decided after l.sent, so the tokens fit no sooner
		wait = max(wait, time.Duration(quantity-l.Limit.Capacity)*l.interval+max(0, l.reply.ResetAfter-at.Sub(l.sent)))
	}
	return wait
}

func (l *lease) ahead(at time.Time) (ahead int) {
	for _, g := range l.grants {
		if !at.After(g.last) {
			ahead += g.left
		}
	}
	return ahead
}

// ask makes calls for tokens until nobody waits. They belong to nobody: no caller ends them.
func (l *lease) ask() {
	ctx := context.WithValue(context.Background(), l.Leases, true)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for len(l.queue) > 0 {
		waiters, sent := l.queue, l.now()
		quantity := l.wanted(waiters, sent)
		if first := waiters[0].quantity; first > 1 && l.reply.Allowed < l.reply.Quantity {
			waiters, quantity = waiters[:1:1], first // what is taken may be too few for any, and lapse
		}
		l.queue = l.queue[len(waiters):]
		call, shared := l.limiter.AllowN, len(waiters) > 1 || quantity > waiters[0].quantity
		if shared {
			call = l.limiter.AllowAtMost
		}
		l.mutex.Unlock()
		reply, err := call(ctx, l.Key, l.Limit, quantity)
		l.mutex.Lock()
		l.learn(reply, err, sent, shared)
		l.serve(waiters, sent, outcome{reply, err, !shared})
		l.queue = l.serve(l.queue, l.now(), outcome{result: limiter.Result{Path: limiter.PathLease}})
	}
	l.asking = false
}

// wanted is how many tokens to ask for: what waiters want, or half of the demand if that is more.
func (l *lease) wanted(waiters []*waiter, now time.Time) (wanted int) {
	for _, w := range waiters {
		wanted += w.quantity
	}
	most := int(min(time.Duration(l.Limit.Capacity/10), l.span/l.interval)) - l.ahead(now)
	return wanted + max(0, min(max(l.asked, l.askedBefore)/2-wanted, most))
}

// learn notes what a call brought, and for how long calls are limited or alone because of it.
func (l *lease) learn(reply limiter.Result, err error, sent time.Time, shared bool) {
	l.limits, l.limitsAll = time.Time{}, time.Time{}
	if err != nil || reply.Path != limiter.PathModule && reply.Path != limiter.PathScript {
		l.alone = l.now().Add(time.Second)
		return
	}
	const longest = 5 * time.Second
	l.reply, l.sent = reply, sent
	gotLess := reply.Allowed < reply.Quantity
	if gotLess || l.span == 0 { // callers whose tokens cannot fit yet
		l.limits = sent.Add(longest)
	}
	if gotLess && shared { // all callers
		l.limitsAll = sent.Add(min(l.span, time.Duration(l.Limit.Capacity)*l.interval/2, longest))
	}
	l.grants = slices.DeleteFunc(l.grants, func(g grant) bool { return g.left == 0 || sent.After(g.last) })
	l.grants = append(l.grants, grant{reply.Allowed, sent.Add(l.span), reply.Receipt})
}

// serve decides waiters in order, and returns those who have to wait for another reply. A call for
// one caller alone has its very answer.
func (l *lease) serve(waiters []*waiter, at time.Time, answer outcome) []*waiter {
	return slices.DeleteFunc(waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil { // it has given up, or will
			return true
		}
		var got outcome
		decided := l.decideNow(at, w.quantity, answer.result.Path, &got.result)
		if answer.told {
			got = answer
		}
		if decided {
			w.done <- got
		}
		return decided
	})
}
