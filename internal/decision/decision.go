// Package decision has the part of a decision that funnels, slots and quotas have in common.
// Packages gcra, slots and quota embed it, so a call over rows of all kinds reads each row alike.
//
// It runs inside a server without the Go runtime: docs/go-runtime.md has the rules.
package decision

// Never is the Wait of a call that can never be allowed: asking again never helps.
const Never int64 = -1

// A Decision is the answer to one call about one key. Times are in nanoseconds.
type Decision struct {
	// Asks says that the call asks for anything: a quantity of 0 does not.
	Asks bool

	// Limited says that what the call asked for was not free. For operations that only account for
	// what was used, it says that more than the limit is in use.
	Limited bool

	// Limit is how much there is: the capacity of a funnel, how many slots may run at once, how
	// much of a quota may be used in a period.
	Limit int64

	// Remaining is how much of the limit is free after this call: from 0 to Limit.
	Remaining int64

	// Wait is how long to wait. If the call was allowed, wait before going ahead: 0, unless tokens
	// of a funnel were reserved ahead of time. If it was limited, wait before asking again; or
	// Never.
	Wait int64

	// ResetAfter is the time until nothing of the limit is in use.
	ResetAfter int64
}

// RetryAfter is the Wait of a limited call, and Never, -1, for an allowed call: the retry_after of
// CL.THROTTLE, in nanoseconds.
//
//go:nosplit
func (d *Decision) RetryAfter() int64 {
	if d.Limited {
		return d.Wait
	}
	return Never
}

// Longer returns the longer of two waits. Never is longer than any other wait.
//
//go:nosplit
func Longer(a, b int64) int64 {
	return int64(max(uint64(a), uint64(b))) // as an unsigned number, -1 is the largest
}
