package limiter

import (
	"context"
	"time"
)

// A Hook is called after each decision, before the caller gets it: for metrics and
// traces. It must be quick, and safe for concurrent use. The folder test/examples has one
// for Prometheus and one for OpenTelemetry.
type Hook func(ctx context.Context, decision Decision)

// A Decision is the argument of a [Hook].
type Decision struct {
	Command string // reserve, peek, charge or refund
	Key     string // with the prefix of [WithPrefix]

	// Result is what the caller gets; Result.Path says what decided, and Result.Err
	// is the error, if the caller gets one.
	Result Result

	// Err is why Redis has not decided, or nil. It is set also when the caller gets
	// no error because of [OnFailure].
	Err error

	// Duration is the time from the call to the decision. Requests of
	// [Limiter.AllowMany] share it.
	Duration time.Duration
}
