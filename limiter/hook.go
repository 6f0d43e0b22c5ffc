package limiter

import (
	"context"
	"time"
)

// A Hook is told about every call, after its decision and before the caller: for
// metrics and traces. It must be safe for use by many goroutines, and quick.
type Hook interface {
	Decided(ctx context.Context, decision Decision)
}

// A Decision is what a [Hook] is told.
type Decision struct {
	Key      string // with the prefix of [WithPrefix]
	Limit    Limit
	Quantity int

	// Result is what the caller gets; Result.Path says who decided.
	Result Result

	// Err is why Redis has not decided, also when the caller is not told because
	// [OnFailure] says what to do; or nil.
	Err error

	// Duration is the time from the call to the decision. Requests of
	// [Limiter.AllowMany] share it.
	Duration time.Duration
}
