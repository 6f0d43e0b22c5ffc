package limiter

import (
	"context"
	"log/slog"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
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
	// above the capacity, and books nothing.
	FailOpen

	// FailClosed limits every call that asks for tokens. RetryAfter is one second, or NoRetry
	// for a quantity above the capacity. Charges and refunds are not booked.
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
	local   *local.Funnels
	outage  outage
	breaker breaker
}

// decide decides a call that Redis has not, because of cause.
func (f *failure) decide(ctx context.Context, c *call, cause error) error {
	if f.policy == FailWithError {
		return cause
	}
	f.outage.add(ctx, f.logger, f.now(), f.policy, cause)
	if f.policy == FailClosed {
		c.close()
		return nil
	}

	// Empty funnels, as far as FailOpen is concerned.
	asks, keys := make([]gcra.Ask, len(c.funnels)), make([]string, len(c.funnels))
	for i := range c.funnels {
		asks[i] = gcra.Ask{Rate: c.funnels[i].shape.rate, Quantity: int64(c.funnels[i].quantity)}
		keys[i] = c.funnels[i].key
	}
	decide := func(asks []gcra.Ask, now int64) error {
		_, err := c.operation.Decide(asks, now, int64(c.longestWait))
		return err
	}
	path, err := PathOpen, error(nil)
	if f.policy == FailLocal {
		path, err = PathLocal, f.local.Ask(keys, asks, decide)
	} else {
		err = decide(asks, f.now().UnixNano())
	}
	if err != nil {
		return err
	}
	limited, _ := gcra.Together(asks)
	for i := range asks {
		c.set(i, path, asks[i].Decision, limited)
	}
	return nil
}

// close limits a call. What is charged or refunded then is not booked anywhere.
func (c *call) close() {
	for i := range c.funnels {
		f := &c.funnels[i]
		decision := gcra.Decision{Limited: true, Wait: int64(closedRetryAfter), ResetAfter: f.shape.rate.Tolerance()}
		if f.quantity > f.limit.Capacity {
			decision.Wait = gcra.Never
		}
		c.set(i, PathClosed, decision, true)
	}
}
