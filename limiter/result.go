package limiter

import (
	"time"

	"funnel/gcra"
)

// NoRetry means that asking again is of no use, in [Result.RetryAfter].
const NoRetry time.Duration = -1

// A Result is the decision on one funnel. The zero Result is limited.
type Result struct {
	// Limit is the limit of the call.
	Limit Limit

	// Quantity is the number of tokens that the call asked for.
	Quantity int

	// Allowed is the number of tokens that were poured: all or none, except with
	// [Limiter.AllowAtMost].
	Allowed int

	// Remaining is how many whole tokens fit right now, after this call: from 0 to
	// the capacity.
	Remaining int

	// Wait is how long to wait before going ahead: 0 unless the tokens were reserved
	// by [Limiter.Reserve] for a later turn.
	Wait time.Duration

	// RetryAfter is how long a limited call should wait before it asks again. It is
	// NoRetry, -1, when the call was not limited, and when it asks for more than the
	// capacity and always will be.
	RetryAfter time.Duration

	// ResetAfter is the time until the funnel is empty and the whole capacity fits
	// again.
	ResetAfter time.Duration

	// Path says what decided.
	Path Path

	// Err is why there is no decision, in the results of [Limiter.AllowMany]. Other
	// methods return it.
	Err error

	decided, limited bool
}

// Limited reports whether the tokens that the call asked for did not fit; after
// [Limiter.Charge] and [Limiter.Refund], whether the funnel is overfull. Any other call of
// no tokens is never limited.
func (r Result) Limited() bool { return !r.decided || r.limited }

// A Path says what decided: Redis, by module or script, or this process.
type Path string

const (
	PathModule    Path = "module"    // CL.RESERVE and its like, or CL.THROTTLE
	PathScript    Path = "script"    // the script
	PathPrefilter Path = "prefilter" // this process, see [WithPrefilter]
	PathLocal     Path = "local"     // [FailLocal]
	PathOpen      Path = "open"      // [FailOpen]
	PathClosed    Path = "closed"    // [FailClosed]
)

// set fills in what a funnel says to a call. Limited is what the call says as a whole.
func (c *call) set(index int, path Path, decision gcra.Decision, limited bool) {
	f := &c.funnels[index]
	result := Result{
		Limit:      f.limit,
		Quantity:   f.quantity,
		Remaining:  int(decision.Remaining),
		RetryAfter: NoRetry,
		ResetAfter: time.Duration(decision.ResetAfter),
		Path:       path,
		decided:    true,
	}
	books := c.operation == gcra.Charge || c.operation == gcra.Refund
	result.limited = decision.Limited && (books || f.quantity > 0)
	if books || c.operation == gcra.Reserve && !limited {
		result.Allowed = f.quantity
	}
	if result.limited {
		result.RetryAfter = time.Duration(decision.Wait)
	} else if f.quantity > 0 {
		result.Wait = time.Duration(max(decision.Wait, 0))
	}
	c.results[index] = result
}
