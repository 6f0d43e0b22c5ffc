package limiter

import (
	"context"
	"slices"
	"time"

	"funnel/gcra"
)

// one decides a call of one funnel.
func (l *Limiter) one(ctx context.Context, operation gcra.Operation, key string, limit Limit, quantity int, lastWord int64, mayShare bool) (Result, error) {
	var single struct { // one allocation, not three
		calls  [1]call
		funnel [1]funnel
		part   [1]gcra.Item
	}
	single.funnel[0] = funnel{key: l.prefix + key, limit: limit, quantity: quantity}
	single.calls[0] = call{operation: operation, funnels: single.funnel[:], parts: single.part[:], lastWord: lastWord, mayShare: mayShare}
	l.decide(ctx, single.calls[:])
	return l.result(&single.calls[0], 0), single.calls[0].err
}

// decide decides calls one by one, where possible in one round trip: by what is known here,
// by Redis, or, where Redis fails, without it. Then it calls the hooks. The road of a call is
// check (call.go), ask (here, then server.go), askBy, viaModule or viaScript (call.go), send,
// take, readRows (reply.go), and result (call.go).
func (l *Limiter) decide(ctx context.Context, calls []call) {
	start, pending := l.now(), false
	for i := range calls {
		c := &calls[i]
		c.cause = c.check(&l.shapes)
		c.err = c.cause
		c.pending = c.err == nil && !l.prefilter.limits(c)
		c.local = c.local || l.server == nil
		pending = pending || c.pending && !c.local
	}
	within, cancel := ctx, func() {}
	if pending && l.leases.shares(&calls[0], start) {
		within, cancel = l.withTimeout(ctx)
		pending = !l.share(within, &calls[0])
	}
	defer cancel()
	if pending {
		l.ask(within, calls)
		if c := &calls[0]; l.leases.enabled && (c.operation == gcra.Refund || c.strict) { // also after a lost answer
			l.leases.endBackOff(c.funnels[0].key[len(l.prefix):])
		}
	}
	for i := range calls {
		c := &calls[i]
		switch {
		case !c.pending:
		case ctx.Err() != nil && (c.local || c.cause != nil):
			c.err = context.Cause(ctx)
		case c.local:
			c.err = c.decideBy(l.failure.local)
			c.asked = c.err == nil
		case c.cause == nil:
			if c.path != PathLease {
				l.failure.outage.over(ctx, l.failure.logger, l.now())
			}
			l.prefilter.learn(c, start)
		case isFault(c.cause):
			c.err = c.cause
		default:
			c.err = l.failure.decide(ctx, c)
		}
		if len(l.hooks) > 0 {
			l.callHooks(ctx, c, start)
		}
	}
}

// ask asks Redis for the pending calls, unless it has ceased to answer.
func (l *Limiter) ask(ctx context.Context, calls []call) {
	err := context.Cause(ctx)
	if err == nil {
		err = l.failure.breaker.refuses(l.now())
	}
	if err != nil {
		fail(calls, err)
		return
	}
	for i := range calls {
		calls[i].asked = calls[i].pending
	}
	within, cancel := l.withTimeout(ctx)
	defer cancel()
	if l.givesUp || within.Done() == nil {
		l.server.ask(within, calls)
	} else {
		late := slices.Clone(calls)
		err = l.await(within, func(ctx context.Context) error { l.server.ask(ctx, late); return nil })
		if err == nil {
			copy(calls, late)
		} else {
			fail(calls, err)
			giveUp(calls)
		}
	}

	var failed error
	answered := false
	for i := range calls {
		switch c := &calls[i]; {
		case !c.pending:
		case c.cause == nil:
			answered = true
		case isReply(c.cause): // also one that says an error is an answer
			answered, c.cause = true, c.named(c.cause)
		default:
			c.cause = causeOf(within, c.cause)
			failed = c.cause
			l.prefilter.forget(c)
		}
	}
	if answered {
		l.failure.breaker.answered()
	} else if ctx.Err() == nil { // the caller has not given up
		l.failure.breaker.failed(l.now(), failed)
	}
}

// fail says why Redis has not decided the pending calls.
func fail(calls []call, cause error) {
	for i := range calls {
		if calls[i].pending {
			calls[i].cause = cause
		}
	}
}

// giveUp leaves the decisions of calls to an answer that may still come. No caller reads it.
func giveUp(calls []call) {
	for i := range calls {
		if c := &calls[i]; c.pending {
			parts := make([]gcra.Item, len(c.parts))
			for j := range parts {
				parts[j].Request = c.parts[j].Request
			}
			c.parts = parts
		}
	}
}

// callHooks calls the hooks with each result of a call.
func (l *Limiter) callHooks(ctx context.Context, c *call, start time.Time) {
	duration := l.now().Sub(start)
	for i := range c.funnels {
		event := Event{Command: c.name(), Key: c.funnels[i].key, Result: l.result(c, i), Err: c.err, Cause: c.cause, Duration: duration}
		for _, hook := range l.hooks {
			hook(ctx, event)
		}
	}
}

func (l *Limiter) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, l.timeout, l.tooLate)
}

// await returns when the context is done, which the client may not.
func (l *Limiter) await(ctx context.Context, send func(context.Context) error) error {
	if l.givesUp || ctx.Done() == nil {
		return causeOf(ctx, send(ctx))
	}
	done := make(chan error, 1) // from no pool: a channel of a bubble of synctest must not leave it
	go func() { done <- send(ctx) }()
	select {
	case err := <-done:
		return causeOf(ctx, err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// causeOf says why, where the context is the reason for an error.
func causeOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection, which has the same deadline, may be faster
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
