// Package guard has backends that stand in front of Redis. A [Guard] bounds how long a call waits
// for Redis, lets a caller that gives up leave nothing behind, and keeps calls away from a Redis
// that does not answer. A [Fallback] asks another backend if Redis does not decide.
package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
	"funnel/limiter/internal/undo"
)

// Redis is the backend behind a guard. Its error is an ErrInvalid or an ErrUnavailable if an answer
// came. If none came, it is an ErrNotSent if the call was certainly not sent, an ErrInProcess if
// the reason is in this process, or both.
type Redis interface {
	backend.Backend

	// Node returns the address of the node that has a key, or "" if it is not known or there is
	// only one. It does not block.
	Node(key string) string

	// AllInUse reports whether all connections to the server that has a key are in use, as far as
	// the client tells.
	AllInUse(key string) bool

	// KeepsDeadlines reports whether Ask and Reset return when the deadline of their context has
	// passed.
	KeepsDeadlines() bool
}

// maxLeft bounds the calls of one node that are under way without a caller. Each of them has a
// goroutine, and a server that hangs for a minute would otherwise collect one for each caller with
// a short deadline: 1,000 take some 10 MB. Callers that wait already when the bound is reached may
// come on top. So does what goes back to Redis, settlements and refunds: each follows from a call
// that Redis has decided.
const maxLeft = 1000

// A Guard asks Redis within a time-out, and does not ask a Redis that has stopped answering. Make
// one with [New].
//
// A command belongs to the guard, not to its caller: go-redis gets a context that ends with the
// time-out, never the deadline or the cancellation of the caller. Go-redis closes the connection of
// a command whose context is done, but the server may execute the command all the same, even after
// a refund on another connection. So a caller that leaves lets its command go on, and what comes of
// it is undone.
type Guard struct {
	redis          Redis
	undo           *undo.Undo
	timeout        time.Duration
	timedOut       error // the error of a call that has waited for the whole time-out
	clientTimesOut bool  // go-redis itself returns at the time-out, so no second goroutine is needed
	now            func() time.Duration
	breaker        breaker
	left           atomic.Int32 // calls that are under way without a caller
}

// New returns a guard of redis. With a timeout of 0 or less, only redis bounds how long a call is
// under way. Undo gives back what callers have not waited for. Now is a monotonic clock.
func New(redis Redis, undo *undo.Undo, timeout time.Duration, now func() time.Duration) *Guard {
	timedOut := fmt.Errorf("no answer from Redis within %v: %w", timeout, context.DeadlineExceeded)
	return &Guard{redis: redis, undo: undo, timeout: timeout, timedOut: timedOut,
		clientTimesOut: timeout > 0 && redis.KeepsDeadlines(), now: now}
}

// Ask asks Redis to decide a call within the time-out. A decision that arrives counts, even if ctx
// is done meanwhile. Ask returns at once when ctx is done, unless the time-out ends the call early
// enough: see [Guard.isBounded].
func (g *Guard) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	refusal := g.admit(ctx, c)
	if refusal != nil {
		return backend.Reply{}, refusal
	}
	if !g.isBounded(ctx) {
		ask := func(within context.Context) (backend.Reply, error) { return g.redis.Ask(within, c) }
		return g.sendAside(ctx, c, ask)
	}
	within, cancel := g.within(ctx)
	defer cancel()
	reply, err := g.redis.Ask(within, c)
	return reply, g.conclude(ctx, c, g.note(within, c, err))
}

// Reset deletes a key in Redis, within the time-out. It asks even a Redis that has stopped
// answering.
func (g *Guard) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	reset := func(within context.Context) (backend.Reply, error) {
		return backend.Reply{}, g.redis.Reset(within, key)
	}
	c := &backend.Call{Operation: call.Refund, Rows: []backend.AskedRow{{Key: key}}} // which is never undone
	_, err := g.sendAside(ctx, c, reset)
	return g.causeOf(ctx, err)
}

// admit returns why a call is not sent, or nil. An open breaker refuses most calls, but lets slots
// be renewed and given back, and what nobody got.
func (g *Guard) admit(ctx context.Context, c *backend.Call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !c.Renews && !c.EndsSlot() && !c.Undoes && g.breaker.isOpen() {
		refusal := g.breaker.admit(g.now())
		if refusal != nil {
			return backend.Unavailable(c.Wrap(refusal))
		}
	}
	return nil
}

// isBounded reports whether the time-out lets a caller wait in its own goroutine: the call is over
// at the time-out, and ctx has no earlier deadline. A cancellation may come earlier. That is
// acceptable: the client of a cancelled caller has usually gone.
func (g *Guard) isBounded(ctx context.Context) bool {
	if !g.clientTimesOut {
		return g.timeout <= 0 && ctx.Done() == nil // such a caller never leaves
	}
	deadline, has := ctx.Deadline()
	return !has || time.Until(deadline) >= g.timeout
}

// within returns the context of a command: the values of ctx, and the time-out.
func (g *Guard) within(ctx context.Context) (within context.Context, cancel context.CancelFunc) {
	within = context.WithoutCancel(ctx)
	if g.timeout <= 0 {
		return within, func() {}
	}
	return context.WithTimeout(within, g.timeout)
}

// note reports the outcome of a command to the breaker. It returns the error for the caller.
func (g *Guard) note(within context.Context, c *backend.Call, err error) error {
	if redis.IsAnswered(err) {
		g.breaker.answered(g.now())
		return err
	}
	if errors.Is(err, backend.ErrInProcess) { // the breaker learns nothing
		return backend.Unavailable(c.Wrap(err))
	}
	isUnsent := errors.Is(err, backend.ErrNotSent)
	deadline, has := within.Deadline()
	if has && time.Until(deadline) <= 0 { // the connection has the same deadline, and may report it first
		err = g.timedOut
	}
	if isUnsent {
		err = backend.Classify(backend.ErrNotSent, err)
	}
	// A call that waits for a connection does not show that Redis hangs, if Redis answers others
	// meanwhile: then callers are too many for the connections.
	if !isUnsent || !g.breaker.hasAnsweredSince(g.now()-g.timeout) {
		g.breaker.failed(g.now(), err)
	}
	return backend.Unavailable(c.Wrap(err))
}

// conclude returns the error of a call for its caller. Slots are asked back if Redis has not
// decided.
func (g *Guard) conclude(ctx context.Context, c *backend.Call, err error) error {
	if err == nil || errors.Is(err, backend.ErrInvalid) {
		return err
	}
	if !errors.Is(err, backend.ErrNotSent) {
		g.undo.Lost(ctx, c, redis.IsAnswered(err))
	}
	return g.causeOf(ctx, err)
}

// causeOf returns the cause of ctx instead of an error if the caller has given up: it has no use
// for the error then.
func (g *Guard) causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
