package limiter

import (
	"context"
	"time"
)

// A Hook is called with each decision, before the caller gets it: for metrics and
// traces. It must be quick, and safe for concurrent use. The folder examples/monitoring has one
// for Prometheus and one for OpenTelemetry.
//
// The event lease belongs to no caller: with [WithLease], hooks get it in a goroutine of the
// Limiter, with the background context, perhaps after the callers have their results. A panic
// there ends the process.
type Hook func(ctx context.Context, event Event)

// An Event is a decision on one funnel, or an error.
type Event struct {
	Command string // reserve, take, peek, charge, refund; or lease, a call for callers' tokens
	Key     string // with the prefix of [WithPrefix]

	// Result and Err are what the caller gets; Result.Path says what decided.
	Result Result
	Err    error

	// Cause is why Redis has not decided, or nil. It is set also when the caller gets
	// no error because of [OnFailure].
	Cause error

	// Duration is the time from the call to the decision. Requests of
	// [Limiter.AllowMany] share it.
	Duration time.Duration
}
