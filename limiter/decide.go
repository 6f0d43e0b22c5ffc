package limiter

import (
	"context"
	"time"
)

// decide answers a query: Redis does, or, where Redis fails, the policy. Then it calls the
// hooks.
func (l *Limiter) decide(ctx context.Context, q *query) (a answer, err error) {
	start := l.now()
	switch {
	case q.invalid != nil:
		err = q.invalid
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case l.server == nil || q.decider == processAlone:
		a, err = l.decideLocally(q)
	default:
		a, err = l.await(ctx, q)
	}
	cause := err
	switch {
	case cause == nil:
		if l.outage.begun.Load() && a.path != PathLocal { // a decision here says nothing of Redis
			l.outage.decided(ctx, l.logger, l.now())
		}
	case q.invalid != nil || l.server == nil || isFault(cause): // no policy for wrong calls
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case q.decider == redisOrPolicy:
		a, err = l.fallback(ctx, q, cause)
	}
	a.query = q
	if len(l.hooks) > 0 {
		l.callHooks(ctx, &a, Event{Err: err, Cause: cause, Duration: l.now().Sub(start)})
	}
	return a, err
}

// await asks Redis within the time-out. It returns when the context is done, which a client of
// go-redis may not: an answer that comes after that belongs to nobody.
func (l *Limiter) await(ctx context.Context, q *query) (a answer, err error) {
	if l.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.timeout, l.timeoutCause)
		defer cancel()
	}
	var reply *pending
	if ctx.Done() == nil {
		a, err = l.try(ctx, q)
	} else {
		reply = &pending{done: make(chan struct{})}
		go reply.await(l, ctx, q)
		select {
		case <-reply.done:
			a, err = reply.answer, reply.err
		case <-ctx.Done():
			a, err = answer{acted: true}, context.Cause(ctx)
		}
	}
	if err == l.timeoutCause && a.acted { // an open breaker repeats that error
		l.breaker.failed(l.now(), err)
	}
	if q.undo != nil && err != nil && a.acted && !isFault(err) {
		go l.undo(context.WithoutCancel(ctx), q, reply)
	}
	return a, err
}

// A pending answer is there when done is closed.
type pending struct {
	answer answer
	err    error
	done   chan struct{}
}

func (p *pending) await(l *Limiter, ctx context.Context, q *query) {
	defer close(p.done)
	p.answer, p.err = l.try(ctx, q)
}

// try asks Redis, unless it has ceased to answer; slots are given back and keys are deleted in any
// case. It tells the breaker what came back, also where the caller has given up meanwhile.
func (l *Limiter) try(ctx context.Context, q *query) (answer, error) {
	isProbe := l.breaker.failures.Load() >= failuresToOpen && !q.endsSlot() && !q.deletes
	if isProbe {
		if refusal := l.breaker.admit(l.now()); refusal != nil {
			return answer{}, refusal
		}
	}
	a, err := l.server.ask(ctx, q)
	a.acted = true
	if err == nil || isReply(err) {
		if l.breaker.failures.Load() > 0 {
			l.breaker.answered()
		}
		if err != nil {
			err = q.wrap(err)
		}
		return a, err
	}
	err = causeOf(ctx, err)
	switch {
	case ctx.Err() == nil:
		l.breaker.failed(l.now(), err)
	case isProbe && err != l.timeoutCause:
		l.breaker.leaveProbe()
	}
	return a, err
}

// causeOf says why, where the context is the reason for an error.
func causeOf(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection has the same deadline, and may report it first
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
