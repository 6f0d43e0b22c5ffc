package limiter

import "time"

// NoRetry means that asking again is of no use, in [Result.RetryAfter].
const NoRetry time.Duration = -1

// A Result is the decision on one funnel. Tests of other packages can make one; the zero
// Result is limited.
type Result struct {
	Key      string // of the call, without the prefix of [WithPrefix]
	Limit    Limit  // of the call
	Quantity int    // how many tokens the call was for

	// Allowed is the number of tokens that were taken, all or none except with
	// [Limiter.AllowAtMost], or that [Limiter.Charge] accounted for.
	Allowed int

	// Remaining is how many whole tokens fit after this call: from 0 to the capacity.
	Remaining int

	// Wait is how long to wait before going ahead: 0 unless the tokens were reserved
	// by [Limiter.Reserve] for later.
	Wait time.Duration

	// RetryAfter is how long a limited call should wait before it asks again, and after
	// Charge and Settle, how long the funnel is overfull. Otherwise it is NoRetry, -1, also
	// for more than the capacity, which is always limited.
	RetryAfter time.Duration

	// ResetAfter is the time until the funnel is empty, and the whole capacity fits.
	ResetAfter time.Duration

	// Receipt tells [Limiter.Settle] which tokens the call took: the TAT that it stored, in
	// nanoseconds since the Unix epoch. It is 0 where no funnel holds tokens of the call.
	Receipt int64

	// Path says what decided. It is empty beside an error.
	Path Path
}

// Limited reports whether the call is to ask again after RetryAfter, or was for more than
// the capacity. A call that took or accounted for tokens is not limited, nor is one for no
// tokens. After [Limiter.Peek] it says whether a token would be limited.
func (r Result) Limited() bool {
	switch {
	case r.Allowed > 0:
		return false
	case r.RetryAfter == NoRetry:
		return r.Quantity > r.Limit.Capacity
	}
	return r.Quantity > 0 || r.RetryAfter == 0 // the zero Result
}

// A Path is what decided: Redis, by module or script, or this process.
type Path string

const (
	PathModule Path = "module" // CL.RESERVE and its like
	PathScript Path = "script" // the script
	PathLease  Path = "lease"  // this process, by package limiter/lease
	PathLocal  Path = "local"  // [FailLocal], [NewLocal]
	PathOpen   Path = "open"   // [FailOpen]
	PathClosed Path = "closed" // [FailClosed]
)
