package lease

import (
	"context"
	"slices"
	"time"

	"funnel/limiter"
)

// aloneFor is for how long callers ask alone after a call for tokens has failed.
const aloneFor = time.Second

// A tokenCall is a call for tokens: for waiting callers, for tokens ahead, or for both.
type tokenCall struct {
	waiters  []*waiter
	quantity int
	sent     time.Duration
}

// isShared reports whether the call is for more than the tokens of one caller. A shared call takes
// as many tokens as it can get. A call that is not shared is the call that its caller would make
// without leases.
func (c *tokenCall) isShared() bool { return len(c.waiters) != 1 || c.quantity > c.waiters[0].quantity }

// startTokenCalls starts a goroutine that makes calls for tokens, unless there is one.
func (l *lease) startTokenCalls() {
	if l.asking.CompareAndSwap(false, true) {
		go l.makeTokenCalls()
	}
}

// makeTokenCalls makes one call for tokens after another, until nobody waits. The calls have a
// context of their own: no caller ends them.
func (l *lease) makeTokenCalls() {
	ctx := context.WithValue(context.Background(), l.leases, true)
	for c := l.nextTokenCall(true); c != nil; c = l.nextTokenCall(false) {
		reply, err := l.send(ctx, c)
		l.receive(c, reply, err)
	}
}

// nextTokenCall returns the next call for tokens: for the callers in the queue, or, if it is the
// first call, perhaps only for tokens ahead. If there is nothing to ask for, nextTokenCall returns
// nil, and asking is over.
func (l *lease) nextTokenCall(first bool) *tokenCall {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known, now := l.state.Load(), l.leases.now()
	l.serveQueue(known, now)
	c := &tokenCall{waiters: l.queue, quantity: l.wanted(known, l.queue, now), sent: now}
	switch {
	case len(l.queue) == 0:
		refills := first && c.quantity > 0 && known.refill.isDue(now, &known.grants)
		if !refills {
			l.asking.Store(false)
			return nil
		}
	case l.queue[0].quantity > 1 && known.reply.gotLess():
		// Tokens are scarce. A shared call may take too few for any of the callers, and they would
		// lapse.
		c.waiters, c.quantity = l.queue[:1:1], l.queue[0].quantity
	}
	l.queue = l.queue[len(c.waiters):]
	return c
}

// wanted returns how many tokens to ask for: as many as the waiters want, or half of the demand if
// that is more. Tokens ahead are no more than maxAhead.
func (l *lease) wanted(known *state, waiters []*waiter, now time.Duration) (tokens int) {
	for _, w := range waiters {
		tokens = plus(tokens, w.quantity)
	}
	ahead := min(l.demand.inSpan()/2-tokens, l.maxAhead-known.grants.ahead(now))
	return tokens + max(0, ahead)
}

func (l *lease) send(ctx context.Context, c *tokenCall) (limiter.Result, error) {
	if c.isShared() {
		return l.leases.limiter.AllowAtMost(ctx, l.request.Key, l.request.Limit, c.quantity)
	}
	return l.leases.limiter.AllowN(ctx, l.request.Key, l.request.Limit, c.quantity)
}

// receive decides the callers of a call by its reply, and then the callers in the queue as far as
// tokens are left. New callers see the new state only after that.
func (l *lease) receive(c *tokenCall, reply limiter.Result, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	byRedis := err == nil && (reply.Source == limiter.FromModule || reply.Source == limiter.FromScript)
	next := *l.state.Load()
	if byRedis {
		l.learn(&next, c, reply)
	} else {
		next.unlearn(l.leases.now())
	}
	for _, w := range c.waiters {
		if w.ctx.Err() != nil { // it has given up: the next in line gets its tokens
			continue
		}
		switch {
		case !c.isShared():
			next.grants.take(c.sent, w.quantity) // from the grant that learn has added: these tokens are not ahead
			w.done <- outcome{verdict: decided, result: reply, err: err, isReported: true}
		case byRedis:
			w.done <- outcome{verdict: decided, result: next.decideByReply(w.quantity)}
		default:
			w.done <- outcome{verdict: askAlone}
		}
	}
	l.serveQueue(&next, l.leases.now())
	l.state.Store(&next)
}

// learn changes the state after a reply of Redis: the tokens become a grant, the reply may reject
// later calls, and a refill says when to ask ahead.
func (l *lease) learn(s *state, c *tokenCall, reply limiter.Result) {
	span := l.leases.span
	s.reply = newLastReply(reply, l.request.Limit, s.grants.interval, c.sent)
	s.reply.rejectOthers(span, c.isShared())
	s.grants = s.grants.with(reply.Allowed, reply.Receipt, c.sent, c.sent+span)
	s.refill = refill{}
	took, demand := l.leases.now()-c.sent, l.demand.inSpan()
	if s.reply.gotLess() || took >= span/2 || demand/2 > l.maxAhead {
		return // asking ahead would not bring enough, or not in time
	}
	s.refill.from = c.sent + span/3 // no more than three calls in d
	s.refill.early = took + span/8
	inEarly := float64(demand) * float64(s.refill.early) / float64(span)
	s.refill.tokens = min(int(inEarly), l.maxAhead/2)
}

// unlearn changes the state after a call that Redis has not decided: for a while callers ask alone,
// and the lease neither asks ahead nor rejects. Grants stay.
func (s *state) unlearn(now time.Duration) {
	s.refill = refill{}
	s.reply.rejectNone()
	s.aloneUntil = now + aloneFor
}

// serveQueue decides the callers in the queue that can be decided without Redis, in order.
func (l *lease) serveQueue(known *state, now time.Duration) {
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		if w.ctx.Err() != nil {
			return true
		}
		found, verdict := known.tryLocal(now, w.quantity)
		switch verdict {
		case decided:
			w.done <- outcome{verdict: decided, result: known.result(found, now, w.quantity, limiter.FromLease)}
		case askAlone:
			w.done <- outcome{verdict: askAlone}
		}
		return verdict != askRedis
	})
}
