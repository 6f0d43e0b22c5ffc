package lease

import (
	"context"
	"math"
	"slices"
	"time"

	"funnel/limiter"
)

// A waiter is a caller who waits for a reply.
type waiter struct {
	quantity int
	done     chan outcome // of one element
	gone     bool
}

// callForTokens is the key of a value in the contexts of calls for tokens, which hooks get.
type callForTokens struct{}

// decide decides a call, now or by a reply.
func (l *lease) decide(ctx context.Context, quantity int, got *outcome) {
	if l == nil {
		return
	}
	l.mutex.Lock()
	now := l.now() // under the lock: no token is used at an instant before it was taken
	l.count(now, quantity)
	decided := l.decideNow(now, quantity, limiter.PathLease, got)
	if decided || ctx.Value(callForTokens{}) != nil { // that call waits for this one
		l.mutex.Unlock()
		return
	}
	w := &waiter{quantity: quantity, done: make(chan outcome, 1)}
	l.queue = append(l.queue, w)
	if !l.asking {
		l.asking = true
		go l.ask()
	}
	l.mutex.Unlock()
	select {
	case *got = <-w.done:
	case <-ctx.Done():
		*got = l.giveUp(w)
	}
}

// giveUp leaves the tokens to others, unless the waiter has them.
func (l *lease) giveUp(w *waiter) outcome {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(w.done) > 0 {
		return <-w.done
	}
	w.gone = true
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return outcome{alone: true}
}

// ask makes calls for tokens until nobody waits. They belong to nobody: no caller ends them.
func (l *lease) ask() {
	ctx := context.WithValue(context.Background(), callForTokens{}, true)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for len(l.queue) > 0 {
		waiters, sent := l.queue, l.now()
		l.queue = nil
		quantity := l.wanted(waiters, sent)
		call, shared := l.limiter.AllowN, len(waiters) > 1 || quantity > waiters[0].quantity
		if shared {
			call = l.limiter.AllowAtMost
		}
		l.mutex.Unlock()
		reply, err := call(ctx, l.key, l.limit, quantity)
		l.mutex.Lock()
		l.learn(reply, err, sent, shared)
		for _, w := range waiters {
			if w.gone {
				continue
			}
			got := outcome{alone: true}
			l.decideNow(sent, w.quantity, reply.Path, &got)
			if !shared {
				got = outcome{result: reply, err: err, told: true}
			}
			w.done <- got
		}
		l.startOver()
	}
	l.asking = false
}

// wanted is how many tokens to ask for: what waiters want, or half of the demand if that is more.
func (l *lease) wanted(waiters []*waiter, now time.Time) (wanted int) {
	for _, w := range waiters {
		wanted = min(wanted+w.quantity, math.MaxInt/2)
	}
	most := int(min(time.Duration(l.limit.Capacity/10), l.span/l.interval)) - l.ahead(now)
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
	l.sent, l.remaining, l.resetAfter = sent, reply.Remaining, reply.ResetAfter
	gotLess := reply.Allowed < reply.Quantity
	if gotLess || l.span == 0 {
		l.limits = sent.Add(longest)
	}
	if gotLess && shared {
		l.limitsAll = sent.Add(min(l.span, time.Duration(l.limit.Capacity)*l.interval/2, longest))
	}
	l.grants = slices.DeleteFunc(l.grants, func(g grant) bool { return g.left == 0 || sent.After(g.last) })
	l.grants = append(l.grants, grant{reply.Allowed, sent.Add(l.span), reply.Receipt})
}

// startOver decides those who came meanwhile, but for those who have to wait for the next call.
func (l *lease) startOver() {
	now := l.now()
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		got := outcome{alone: true}
		decided := l.decideNow(now, w.quantity, limiter.PathLease, &got)
		if decided {
			w.done <- got
		}
		return decided
	})
}
