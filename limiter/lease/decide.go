package lease

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"funnel/internal/demand"
	"funnel/internal/grants"
	"funnel/internal/lastreply"
	"funnel/limiter"
)

// A lease decides the calls for one key and limit. Instants are durations since the Leases began.
type lease struct {
	*Leases
	limiter.Request
	most   int // tokens that may be ahead
	demand demand.Counter
	state  atomic.Pointer[state]
	asking atomic.Bool // a call for tokens is under way
	mutex  sync.Mutex  // guards the queue, and changes of the state
	queue  []*waiter   // for the next call for tokens
}

// A state is what replies brought. Callers read it without the mutex: only the tokens of its grants change.
type state struct {
	*lease
	grants grants.Grants
	reply  lastreply.Reply
	low    grants.Low    // when the lease asks ahead
	alone  time.Duration // until when callers ask alone, after an error
}

type waiter struct {
	ctx      context.Context
	quantity int
	done     chan outcome // of one element
}

// An outcome is what becomes of a caller. One that has neither Source nor error asks alone.
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
	l.demand.Add(began, l.span, quantity)
	if known.decide(began, quantity, limiter.FromLease, &got.result) {
		if known.grants.IsLow(began, known.low) && l.asking.CompareAndSwap(false, true) {
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

// find returns the lease of a key and limit, or nil if the limit is not valid. A new one removes idle ones.
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
		interval := time.Duration(rate.EmissionInterval())
		l = &lease{Leases: s, Request: of, most: int(min(time.Duration(of.Limit.Capacity/10), s.span/interval))}
		l.state.Store(&state{lease: l, grants: grants.Grants{Interval: interval}})
		s.leases.Add(of, l, func(_ limiter.Request, l *lease) bool {
			state, last := l.state.Load(), l.demand.LastCall()
			return !l.asking.Load() && (now-last)/2 > s.span && now >= state.alone && state.reply.LimitedFor(now, 1) <= 0
		})
	}
	return l
}

// decide decides a call at an instant, unless it has to wait for a reply. A caller who asks
// alone gets no Source. A reply, whose Source is not FromLease, decides all who waited for it.
func (s *state) decide(at time.Duration, quantity int, path limiter.Source, result *limiter.Result) (decided bool) {
	receipt, taken := s.grants.Take(at, quantity)
	switch {
	case taken:
		result.Allowed, result.OK, result.Receipt = quantity, true, receipt
	case at < s.alone:
		return true
	case s.reply.LimitedFor(at, quantity) > 0 || path != limiter.FromLease:
		result.RetryAfter = max(s.reply.LimitedFor(at, quantity), 1)
	default:
		return false
	}
	result.Key, result.Limit, result.Quantity, result.Source = s.Key, s.Limit, quantity, path
	result.Remaining = s.reply.Remaining + min(s.grants.Ahead(at), s.Limit.Capacity-s.reply.Remaining)
	result.ResetAfter = s.reply.ResetAfterAt(at)
	return true
}

// ask makes calls for tokens: one ahead, if it is time, and others until nobody waits. They belong
// to nobody: no caller ends them.
func (l *lease) ask() {
	ctx := context.WithValue(context.Background(), l.Leases, true)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for known, ahead := l.state.Load(), true; ; ahead = false {
		l.queue = known.serve(l.queue, l.now(), outcome{result: limiter.Result{Source: limiter.FromLease}})
		l.state.Store(known) // others take what those who waited have left
		waiters, sent := l.queue, l.now()
		quantity := known.wanted(waiters, sent)
		switch {
		case len(waiters) == 0 && (!ahead || quantity == 0 || !known.grants.IsLow(sent, known.low)):
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
	return wanted + max(0, min(s.demand.Tokens()/2-wanted, s.most-s.grants.Ahead(at)))
}

// learn returns the state after a call: what it brought, and for how long calls are limited or
// alone because of it.
func (l *lease) learn(reply limiter.Result, err error, sent time.Duration, shared bool) *state {
	next, now := *l.state.Load(), l.now()
	next.low = grants.Low{}
	next.reply.LimitNone()
	if err != nil || reply.Source != limiter.FromModule && reply.Source != limiter.FromScript {
		next.alone = now + time.Second
		return &next
	}
	next.reply = lastreply.New(reply, l.Limit, next.grants.Interval, sent)
	next.reply.LimitOthers(l.span, shared)
	next.grants = next.grants.With(reply.Allowed, reply.Receipt, sent, sent+l.span)
	took, asked := now-sent, l.demand.Tokens()
	if reply.Allowed == reply.Quantity && took < l.span/2 && asked/2 <= l.most {
		next.low = grants.Low{From: sent + l.span/3, Early: took + l.span/8} // no more than three calls in d
		next.low.Tokens = min(int(float64(asked)*float64(next.low.Early)/float64(l.span)), l.most/2)
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
		decided := s.decide(at, w.quantity, answer.result.Source, &got.result)
		if answer.told {
			got = answer
		}
		if decided {
			w.done <- got
		}
		return decided
	})
}
