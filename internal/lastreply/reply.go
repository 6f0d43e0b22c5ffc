// Package lastreply says what a reply of Redis tells about later calls: which of them Redis would certainly limit.
package lastreply

import (
	"time"

	"funnel/limiter"
)

// longest is how long a reply limits calls at most.
const longest = 5 * time.Second

// A Reply is the last one. The zero Reply limits no call. Instants are durations since some beginning.
type Reply struct {
	limiter.Result
	sent, interval time.Duration // when its call was sent, and the emission interval
	some, all      time.Duration // until when it limits calls whose tokens cannot fit yet, and all calls
}

// New returns the Reply to a call that was sent at an instant.
func New(result limiter.Result, limit limiter.Limit, interval, sent time.Duration) Reply {
	result.Limit = limit // what wraps a Limiter may leave it out
	return Reply{Result: result, sent: sent, interval: interval}
}

// LimitOthers limits calls whose tokens cannot fit yet, where the call got less than it asked for, or d is 0.
// A shared call that got less limits all: for d, but no longer than half of the capacity takes to leak.
func (r *Reply) LimitOthers(d time.Duration, shared bool) {
	gotLess := r.Allowed < r.Quantity
	if gotLess || d == 0 {
		r.some = r.sent + longest
	}
	if gotLess && shared {
		r.all = r.sent + min(d, time.Duration(r.Limit.Capacity)*r.interval/2, longest)
	}
}

// LimitNone ends what limits calls.
func (r *Reply) LimitNone() { r.some, r.all = 0, 0 }

// ResetAfterAt is the time from an instant until the funnel is empty.
func (r *Reply) ResetAfterAt(at time.Duration) time.Duration { return max(0, r.ResetAfter-(at-r.sent)) }

// LimitedFor is for how long a call is limited, or not above 0.
func (r *Reply) LimitedFor(at time.Duration, quantity int) time.Duration {
	wait := r.all - at
	if at < r.some { // Redis decided after the call was sent, so the tokens fit no sooner
		wait = max(wait, time.Duration(quantity-r.Limit.Capacity)*r.interval+r.ResetAfterAt(at))
	}
	return wait
}
