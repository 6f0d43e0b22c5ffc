package limiter

import (
	"slices"
	"time"

	"funnel/limiter/internal/backend"
)

// NoRetry is the RetryAfter of a call that can never be allowed. It is the longest Duration, 292
// years, so a program that sleeps for RetryAfter does not spin.
const NoRetry time.Duration = 1<<63 - 1

// A Result is the decision on one row of a call: on the tokens of a funnel or a quota, or on a
// slot. Tests of other packages can make one; the zero Result is limited.
type Result struct {
	Key      string // of the call, without the prefix of [WithPrefix]
	Limit    Limit  // of the call; zero for a slot
	Slots    Slots  // of the call; zero for tokens. If slots are renewed, Max is 0
	Quantity int    // the number of tokens that the call asked for; 1 for a slot

	// OK says that the row does not limit the call: its tokens fit or are accounted for, or a slot
	// is free.
	OK bool

	// Allowed is the number of tokens or slots that the call took: all or none, except with
	// [Limiter.AllowAtMost]. After [Limiter.Charge] and [Limiter.Settle], it is the number of
	// tokens that were accounted for.
	Allowed int

	// Remaining is the number of whole tokens that fit after this call, from 0 to the capacity, or
	// the number of slots that are free.
	Remaining int

	// Wait is how long to wait before going ahead: 0, unless [Limiter.Reserve] has reserved tokens
	// for later.
	Wait time.Duration

	// RetryAfter is how long a limited call should wait before it asks again, or [NoRetry] if
	// asking again is of no use: the quantity is above the capacity, or the quota of [Until] has
	// ended. It is 0 if the call was allowed; but after Charge and Settle, it is the time for which
	// the funnel stays overfull.
	RetryAfter time.Duration

	// Overdrawn says, after Charge, ChargeAll or Settle, that more is used than the limit allows.
	// The funnel or quota then limits calls for RetryAfter. Of a quota, a charge of 0 tells
	// nothing.
	Overdrawn bool

	// ResetAfter is the time until the funnel is empty, so that the whole capacity fits; until the
	// period of a quota ends, if some of it is used; or until the last slot ends.
	ResetAfter time.Duration

	// Receipt tells [Limiter.Settle] which tokens the call took, in nanoseconds since the Unix
	// epoch: for a funnel, the TAT that the call stored; for a quota, the end of the period in
	// which the call was counted. It is 0 if the call left nothing that could be given back.
	Receipt int64

	// Source says what decided the call. It is empty if there was an error.
	Source Source
}

// Limited is the opposite of OK: the caller should ask again after RetryAfter. After [Limiter.Peek]
// it says whether a call for one token would be limited.
func (r Result) Limited() bool { return !r.OK }

// A Source says what decided a call: Redis, by module or script, or this process.
type Source string

// The sources.
const (
	FromModule Source = backend.Module // Redis, by a command of the module
	FromScript Source = backend.Script // Redis, by the script
	FromLease  Source = "lease"        // this process, by package limiter/lease
	FromLocal  Source = backend.Local  // [FailLocal], [NewLocal]
	FromOpen   Source = backend.Open   // [FailOpen]
	FromClosed Source = backend.Closed // [FailClosed]
)

// Results are the decisions on the rows of one call, in the order of the call. Limited and
// RetryAfter of one Result concern its row alone.
type Results []Result

// Limited reports whether at least one row limits the call. Empty Results are limited.
func (r Results) Limited() bool { return len(r) == 0 || slices.ContainsFunc(r, Result.Limited) }

// RetryAfter is how long a limited call should wait before it asks again: the longest RetryAfter of
// its rows, so [NoRetry] if one row can never allow the call. It is 0 for a call that was allowed.
// For slots it is the time until the first of them ends, mostly far too long: use
// [Acquisition.RetryAfter].
func (r Results) RetryAfter() time.Duration { return r.slowest().RetryAfter }

// slowest returns the first Result with the longest RetryAfter, or the zero Result.
func (r Results) slowest() (slowest Result) {
	for _, result := range r {
		if result.RetryAfter > slowest.RetryAfter {
			slowest = result
		}
	}
	return slowest
}
