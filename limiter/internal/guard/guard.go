// Package guard has backends that stand in front of Redis. A [Guard] bounds how long a call waits for Redis, and keeps
// calls away from a Redis that does not answer. A [Fallback] asks another backend if Redis does not decide.
package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"funnel/limiter/internal/backend"
)

// Redis is the backend behind a guard. Its error is an error of package backend if an answer came, and any other error
// if no answer came.
type Redis interface {
	backend.Backend
	Reset(ctx context.Context, key string) error

	// Node returns the address of the node that has a key, or "" if it is not known or there is no cluster. It does
	// not block.
	Node(key string) string
}

// A Guard asks Redis within a time-out, and does not ask a Redis that has stopped answering. Make one with [New].
type Guard struct {
	redis    Redis
	timeout  time.Duration
	timedOut error // the error of a call that has waited for the whole time-out
	now      func() time.Duration
	breaker  breaker
}

// New returns a guard of redis. With a timeout of 0 or less, only contexts and redis bound how long calls wait. Now is
// a monotonic clock.
func New(redis Redis, timeout time.Duration, now func() time.Duration) *Guard {
	timedOut := fmt.Errorf("limiter: no answer from Redis within %v: %w", timeout, context.DeadlineExceeded)
	return &Guard{redis: redis, timeout: timeout, timedOut: timedOut, now: now}
}

// Ask asks Redis to decide a call within the time-out. It returns when ctx is done, even if the client of go-redis goes
// on waiting, and drops an answer that comes later.
func (g *Guard) Ask(ctx context.Context, c *backend.Call) (reply backend.Reply, err error) {
	within, cancel := g.bound(ctx)
	defer cancel()
	var answer *pending
	if within.Done() == nil {
		reply, err = g.send(within, c)
	} else {
		answer = &pending{done: make(chan struct{})}
		go answer.run(within, g, c)
		select {
		case <-answer.done:
			reply, err = answer.reply, answer.err
		case <-within.Done():
			reply, err = backend.Reply{Sent: true}, context.Cause(within)
		}
	}
	if err == nil || isWrong(ctx, err) {
		return reply, err
	}
	if c.Lost != nil && reply.Sent {
		go answer.lose(ctx, c)
	}
	return reply, g.explain(ctx, err, reply.Sent)
}

// Reset deletes a key in Redis, within the time-out. It asks even a Redis that has stopped answering.
func (g *Guard) Reset(ctx context.Context, key string) error {
	within, cancel := g.bound(ctx)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- g.note(within, g.redis.Reset(within, key), false) }()
	var err error
	select {
	case err = <-answer:
	case <-within.Done():
		err = context.Cause(within)
	}
	if err == nil || isWrong(ctx, err) {
		return err
	}
	return g.explain(ctx, err, true)
}

// isWrong reports whether Redis has replied that a call is wrong. If the caller has given up, err is the cause of ctx,
// which may be the error of another call.
func isWrong(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, backend.ErrInvalid)
}

// bound returns ctx with the time-out.
func (g *Guard) bound(ctx context.Context) (within context.Context, cancel context.CancelFunc) {
	if g.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, g.timeout, g.timedOut)
}

// explain returns the error for the caller of a call that Redis has not decided, which is the cause of ctx if the
// caller has given up. It reports a time-out to the breaker.
func (g *Guard) explain(ctx context.Context, err error, sent bool) error {
	if err == g.timedOut && sent { // otherwise an open breaker has returned the error of an earlier call
		g.breaker.failed(g.now(), err)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, backend.ErrUnavailable):
		return err
	}
	return backend.Unavailable(err)
}

// send asks Redis, unless the breaker is open. It renews slots and gives them back even then.
func (g *Guard) send(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	isProbe := g.breaker.isOpen() && !c.Renews && !c.EndsSlot()
	if isProbe {
		if refusal := g.breaker.admit(g.now()); refusal != nil {
			return backend.Reply{}, refusal
		}
	}
	reply, err := g.redis.Ask(ctx, c)
	return reply, g.note(ctx, err, isProbe)
}

// note reports the outcome to the breaker, even if the caller has given up, except for a time-out, which explain
// reports. It returns err, or the cause of ctx if that is the reason for err.
func (g *Guard) note(ctx context.Context, err error, isProbe bool) error {
	if err == nil || errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnavailable) {
		g.breaker.answered()
		return err
	}
	err = causeOf(ctx, err)
	switch {
	case ctx.Err() == nil:
		g.breaker.failed(g.now(), err)
	case isProbe && err != g.timedOut:
		g.breaker.leaveProbe()
	}
	return err
}

// causeOf returns the cause of ctx if ctx is the reason for an error, and otherwise the error.
func causeOf(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection has the same deadline, and may report it first
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A pending answer is ready when done is closed.
type pending struct {
	reply backend.Reply
	err   error
	done  chan struct{}
}

// run asks Redis, and closes done.
func (p *pending) run(ctx context.Context, g *Guard, c *backend.Call) {
	defer close(p.done)
	p.reply, p.err = g.send(ctx, c)
}

// lose calls c.Lost once no copy of the call is under way, unless a late answer tells that the call was limited or,
// to a caller that has not given up, wrong: then it has taken nothing. P is nil if no copy can be under way.
func (p *pending) lose(ctx context.Context, c *backend.Call) {
	if p != nil {
		<-p.done
		if p.err == nil && p.reply.Limited || isWrong(ctx, p.err) {
			return
		}
	}
	c.Lost(context.WithoutCancel(ctx))
}
