package limiter

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// A Failure is what to do when Redis cannot decide: it is down, does not answer in
// time, is loading, has no memory left, denies access, ... It does not apply to calls
// that are wrong themselves, whose error is always returned.
//
// All but FailWithError return a result without an error. Result.Path, hooks and
// [Limiter.Stats] tell them from decisions of Redis. The Limiter logs once when this
// begins, and once when Redis answers again.
type Failure int

const (
	// FailWithError returns the error.
	FailWithError Failure = iota

	// FailOpen allows every call, as if its funnel were empty.
	FailOpen

	// FailClosed limits every call, for one second at first.
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

// failure decides without Redis.
type failure struct {
	policy Failure
	logger *slog.Logger
	clock  Clock
	local  *local.Funnels

	// since is when the present failure began, in nanoseconds of the clock, or 0.
	since atomic.Int64
	calls atomic.Uint64 // during it
}

func (f *failure) start(clock Clock) {
	f.clock = clock
	f.local = local.New(clock.Now)
	if f.logger == nil {
		f.logger = slog.Default()
	}
}

// decide decides a call that Redis has not, because of cause.
func (f *failure) decide(ctx context.Context, c call, cause error) answer {
	if f.policy == FailWithError {
		return answer{err: cause}
	}
	f.calls.Add(1)
	if f.since.CompareAndSwap(0, f.clock.Now().UnixNano()) {
		f.logger.WarnContext(ctx, "rate limits are decided without Redis",
			"policy", f.policy.String(), "error", cause)
	}

	switch f.policy {
	case FailOpen:
		decision, err := c.rate.Decide(gcra.Empty, f.clock.Now().UnixNano(), int64(c.quantity))
		return answer{resultOf(c, decision, PathOpen), err}
	case FailLocal:
		decision, err := f.local.Water(c.key, c.rate, int64(c.quantity))
		return answer{resultOf(c, decision, PathLocal), err}
	default:
		result := Result{
			Limit: c.limit, Quantity: c.quantity, RetryAfter: closedRetryAfter,
			ResetAfter: time.Duration(c.rate.Tolerance()), Path: PathClosed,
		}
		if c.quantity == 0 || c.quantity > c.limit.capacity {
			result.RetryAfter = NoRetry
		}
		return answer{result: result}
	}
}

// over is called when Redis has answered.
func (f *failure) over(ctx context.Context) {
	since := f.since.Load()
	if since != 0 && f.since.CompareAndSwap(since, 0) {
		f.logger.InfoContext(ctx, "rate limits are decided by Redis again",
			"after", f.clock.Now().Sub(time.Unix(0, since)), "calls", f.calls.Swap(0))
	}
}
