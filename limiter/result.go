package limiter

import (
	"math"
	"time"

	"funnel/gcra"
)

// NoRetry means "no time to wait" in [Result.RetryAfter].
const NoRetry time.Duration = -1

// A Result is the decision on one call. The zero Result is limited.
type Result struct {
	// Limit is the limit of the call.
	Limit Limit

	// Quantity is the number of tokens that the call asked for; 0 for
	// [Limiter.Peek].
	Quantity int

	// Allowed is the number of tokens that were poured: all or none, except with
	// [Limiter.AllowAtMost].
	Allowed int

	// Remaining is how many whole tokens fit right now, after this call: from 0 to
	// the capacity.
	Remaining int

	// RetryAfter is the time after which this very call would be allowed if no other
	// call pours. It is NoRetry, -1, when the call was allowed or a peek, and when
	// it asks for more than the capacity and never will be. The module replies
	// whole seconds, rounded up; all others nanoseconds.
	RetryAfter time.Duration

	// ResetAfter is the time until the funnel is empty and the whole capacity fits
	// again. Its precision is that of RetryAfter.
	ResetAfter time.Duration

	// Path says what decided.
	Path Path
}

// Limited reports whether the call was limited: none of its tokens were poured. For
// [Limiter.Peek] it reports whether there is no room for a single one.
func (r Result) Limited() bool {
	if r.Quantity == 0 {
		return r.Remaining == 0
	}
	return r.Allowed == 0
}

// A Path says what decided: Redis, by module or script, or this process.
type Path string

const (
	PathModule    Path = "module"    // CL.THROTTLE
	PathScript    Path = "script"    // the script
	PathPrefilter Path = "prefilter" // this process, see [WithPrefilter]
	PathLocal     Path = "local"     // [FailLocal]
	PathOpen      Path = "open"      // [FailOpen]
	PathClosed    Path = "closed"    // [FailClosed]
)

// resultOf converts a decision of package gcra.
func resultOf(c call, decision gcra.Decision, path Path) Result {
	result := Result{
		Limit:      c.limit,
		Quantity:   c.quantity,
		Remaining:  int(decision.Remaining),
		RetryAfter: time.Duration(decision.RetryAfter()),
		ResetAfter: time.Duration(decision.ResetAfter),
		Path:       path,
	}
	if !decision.Limited {
		result.Allowed = c.quantity
	}
	return result
}

// ofSeconds converts a reply of CL.THROTTLE. The seconds are rounded up, and may be
// more than a Duration holds.
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
