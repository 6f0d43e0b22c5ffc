package limiter

import (
	"math"
	"time"

	"funnel/gcra"
)

// NoRetry stands for "no time to wait" in [Result.RetryAfter].
const NoRetry time.Duration = -1

// A Result is the answer to one call. The zero Result is limited.
type Result struct {
	// Limit is the limit of the call.
	Limit Limit

	// Quantity is the number of tokens that the call asked for; 0 for
	// [Limiter.Peek].
	Quantity int

	// Allowed is the number of tokens that it got: all or none, but for
	// [Limiter.AllowAtMost].
	Allowed int

	// Remaining is how many whole tokens fit right now, after this call: from 0 to
	// the capacity.
	Remaining int

	// RetryAfter is the time after which this very call would be allowed if nobody
	// else calls. It is NoRetry, -1, when the call was allowed or looked only, and
	// when it asks for more than the capacity, which no waiting helps. The module
	// tells whole seconds, rounded up; all others tell nanoseconds.
	RetryAfter time.Duration

	// ResetAfter is the time until the funnel is empty and the whole capacity is
	// there again. Its precision is that of RetryAfter.
	ResetAfter time.Duration

	// Path says who decided.
	Path Path
}

// Limited says that the call must not go ahead: it got none of the tokens that it
// asked for. For [Limiter.Peek] it says that there is no room for a single one.
func (r Result) Limited() bool {
	if r.Quantity == 0 {
		return r.Remaining == 0
	}
	return r.Allowed == 0
}

// A Path is a way to a decision.
type Path string

const (
	PathModule    Path = "module"    // CL.THROTTLE
	PathScript    Path = "script"    // the script of the same meaning
	PathPrefilter Path = "prefilter" // what this process knew without asking, see [WithPrefilter]
	PathLocal     Path = "local"     // [FailLocal]
	PathOpen      Path = "open"      // [FailOpen]
	PathClosed    Path = "closed"    // [FailClosed]
)

// resultOf words a decision of package gcra.
func resultOf(c call, decision gcra.Decision, path Path) Result {
	result := Result{
		Limit:      c.limit,
		Quantity:   c.quantity,
		Remaining:  int(decision.Remaining),
		RetryAfter: time.Duration(decision.RetryAfter),
		ResetAfter: time.Duration(decision.ResetAfter),
		Path:       path,
	}
	if !decision.Limited {
		result.Allowed = c.quantity
	}
	return result
}

// ofSeconds converts a reply of CL.THROTTLE. The 292 years that a Duration holds
// end in the middle of a second, which rounding up may have passed.
func ofSeconds(seconds int64) time.Duration {
	switch {
	case seconds < 0:
		return NoRetry
	case seconds > math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	default:
		return time.Duration(seconds) * time.Second
	}
}
