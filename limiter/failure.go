package limiter

import (
	"context"
	"log/slog"
	"time"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// A Failure is what to do when Redis cannot decide: it is down, does not answer in
// time, is loading, has no memory left, denies access, ... It does not apply to calls
// that are wrong themselves, whose error is always returned.
//
// All but FailWithError return a result without an error. Result.Path and hooks tell
// them from decisions of Redis. The Limiter logs when this begins, and when Redis has
// decided all calls again for 10 seconds.
type Failure int

const (
	// FailWithError returns the error.
	FailWithError Failure = iota

	// FailOpen decides every call as if its funnel were empty: it allows all but a quantity
	// above the capacity, and accounts for nothing.
	FailOpen

	// FailClosed limits every call for tokens. RetryAfter is one second, or NoRetry for a
	// quantity above the capacity. Charges and refunds are limited, too: nothing accounts for
	// them.
	FailClosed

	// FailLocal uses funnels inside this process, with the same limits. They are
	// empty when it begins, and each process has its own: n processes together may
	// allow n times the limit, and a burst more.
	FailLocal
)

// closedRetryAfter is the RetryAfter of FailClosed.
const closedRetryAfter = time.Second

// String is the name of the constant without Fail.
func (f Failure) String() string {
	switch f {
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	case FailLocal:
		return "local"
	default:
		return "error"
	}
}

// A failure decides without Redis.
type failure struct {
	policy  Failure
	logger  *slog.Logger
	now     func() time.Time
	local   *funnels.Set
	outage  outage
	breaker breaker
}

// decide decides a call that Redis has not, because of c.cause. It returns the error that the
// caller gets.
func (f *failure) decide(ctx context.Context, c *call) error {
	if f.policy == FailWithError || c.strict {
		return c.cause
	}
	f.outage.add(ctx, f.logger, f.now(), f.policy, c.cause)
	switch f.policy {
	case FailLocal:
		return c.decideBy(f.local)
	case FailOpen:
		for i := range c.parts {
			c.parts[i].TAT = gcra.Empty
		}
		if _, err := c.operation.Decide(c.parts, f.now().UnixNano(), c.lastWord, c.lastWord); err != nil {
			return c.named(err)
		}
		for i := range c.parts {
			c.parts[i].Decision.TAT = 0 // no funnel holds the tokens
		}
		c.path = PathOpen
	case FailClosed:
		for i := range c.funnels {
			funnel, wait := &c.funnels[i], int64(closedRetryAfter)
			if funnel.quantity > funnel.limit.Capacity && c.operation != gcra.Take {
				wait = gcra.Never
			}
			c.parts[i].Decision = gcra.Decision{Limited: true, Wait: wait, ResetAfter: funnel.shape.rate.Tolerance()}
		}
		c.path = PathClosed
	}
	return nil
}
