package limiter

import (
	"slices"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// NoRetry is the RetryAfter of a call that can never be allowed: 292 years. It is the longest of all times, so a
// program that sleeps for it does not spin.
const NoRetry time.Duration = 1<<63 - 1

// A Result is the decision on one row of a call: on the tokens of a funnel or a quota, or on a slot. Tests of other
// packages can make one; the zero Result is limited.
type Result struct {
	Key      string // of the call, without the prefix of [WithPrefix]
	Limit    Limit  // of the call; zero for a slot
	Slots    Slots  // of the call; zero for tokens. In the renewal of a [Slot], Max is 0
	Quantity int    // how many tokens the call was for, or 1 slot

	// OK says that the row does not limit the call: its tokens fit, or are accounted for, or a slot is free.
	OK bool

	// Allowed is the number of tokens or slots that were taken, all or none except with
	// [Limiter.AllowAtMost], or that [Limiter.Charge] accounted for.
	Allowed int

	// Remaining is how many whole tokens fit after this call, from 0 to the capacity, or how many slots are free.
	Remaining int

	// Wait is how long to wait before going ahead: 0 unless the tokens were reserved
	// by [Limiter.Reserve] for later.
	Wait time.Duration

	// RetryAfter is how long a limited call should wait before it asks again. It is [NoRetry] if asking again is of
	// no use, because the quantity is above the capacity or the quota of [Until] has ended. If the call was allowed,
	// it is 0, but after Charge and Settle it is how long the funnel is overfull.
	RetryAfter time.Duration

	// ResetAfter is the time until the funnel is empty and the whole capacity fits, until the period of a quota ends
	// of which something is used, or until the last slot ends.
	ResetAfter time.Duration

	// Receipt tells [Limiter.Settle] which tokens the call took: the TAT that it stored, or the end of the period
	// of a quota in which it was counted, in nanoseconds since the Unix epoch. It is 0 if nothing holds tokens of
	// the call.
	Receipt int64

	// Source says what decided. It is empty beside an error.
	Source Source
}

// Limited is the opposite of OK: the call is to ask again after RetryAfter. After [Limiter.Peek] it says whether a
// token would be limited.
func (r Result) Limited() bool { return !r.OK }

// A Source is what decided: Redis, by module or script, or this process.
type Source string

// The sources.
const (
	FromModule Source = backend.Module // CL.RESERVE and its like
	FromScript Source = backend.Script // the script
	FromLease  Source = "lease"        // this process, by package limiter/lease
	FromLocal  Source = backend.Local  // [FailLocal], [NewLocal]
	FromOpen   Source = backend.Open   // [FailOpen]
	FromClosed Source = backend.Closed // [FailClosed]
)

// fill fills in the results of all rows.
func (q *query) fill(reply *backend.Reply) {
	for i := range q.results {
		q.fillRow(i, reply)
	}
}

// fillRow fills in the result of a row. Without a decision it only tells what the call was for.
func (q *query) fillRow(index int, reply *backend.Reply) {
	asked := &q.results[index]
	result := Result{Key: asked.Key, Limit: asked.Limit, Slots: asked.Slots, Quantity: asked.Quantity}
	if reply.Source != "" {
		row := reply.Row(index)
		result.Source, result.Remaining, result.Receipt = Source(reply.Source), int(row.Remaining), row.Receipt
		result.ResetAfter = row.ResetAfter
		result.Allowed = q.allowed(index, reply)
		result.OK = q.isOK(&result, reply, row)
		switch {
		case !row.Limited:
			result.Wait = row.Wait
		case !result.OK || q.Accounts():
			result.RetryAfter = row.Wait
			if row.Wait == time.Duration(gcra.Never) {
				result.RetryAfter = NoRetry
			}
		}
	}
	*asked = result
}

// allowed is how many tokens or slots of a row were taken or accounted for.
func (q *query) allowed(index int, reply *backend.Reply) int {
	switch {
	case q.Operation == call.Take:
		return int(reply.First.Taken)
	case q.Operation == call.Reserve && !reply.Limited, q.Accounts() && !reply.Refused:
		return q.results[index].Quantity
	}
	return 0
}

// isOK reports whether a row does not limit the call. A call that accounts for tokens is not limited by an overfull
// funnel, nor is a call for no tokens, unless its quota has ended. In a call of several rows, a row for no tokens is.
func (q *query) isOK(result *Result, reply *backend.Reply, row *backend.RowReply) bool {
	switch {
	case q.Accounts():
		return !reply.Refused
	case result.Quantity == 0 && row.Wait >= 0 && (len(q.Rows) == 1 && !q.IsPart || q.Operation == call.Peek):
		return true
	case q.Operation == call.Take:
		return result.Allowed > 0
	}
	return !row.Limited
}

// Results are the decisions on the requests of one call, in their order. Limited and RetryAfter
// of one Result are what its row says alone.
type Results []Result

// Limited reports whether the call as a whole was limited: one of its rows limits it. No
// results are limited.
func (r Results) Limited() bool { return len(r) == 0 || slices.ContainsFunc(r, Result.Limited) }

// RetryAfter is how long a limited call should wait before it asks again: the longest time of
// all, so [NoRetry] if one of its rows can never allow it. It is 0 for a call that was allowed.
func (r Results) RetryAfter() (longest time.Duration) {
	for i := range r {
		longest = max(longest, r[i].RetryAfter)
	}
	return longest
}
