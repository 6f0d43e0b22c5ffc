package lease

import (
	"time"

	"funnel/limiter"
)

// maxReject bounds how long a reply rejects calls.
const maxReject = 5 * time.Second

// A lastReply is the last reply of Redis. It tells which later calls Redis would certainly limit:
// the lease rejects them. The zero lastReply rejects nothing.
type lastReply struct {
	result   limiter.Result
	interval time.Duration // the emission interval
	sent     time.Duration // when the call was sent

	rejectTooLarge time.Duration // until then calls with tokens that cannot fit yet are rejected
	rejectAll      time.Duration // until then all calls are rejected
}

func newLastReply(result limiter.Result, limit limiter.Limit, interval, sent time.Duration) lastReply {
	result.Limit = limit // a Limiter that wraps another may leave it out
	return lastReply{result: result, interval: interval, sent: sent}
}

// gotLess reports whether the call got fewer tokens than it asked for.
func (r *lastReply) gotLess() bool { return r.result.Allowed < r.result.Quantity }

// rejectOthers rejects later calls that cannot fit yet, if the call got less than it asked for, or
// if d is 0. If a shared call got less, all calls are rejected for d, or for the time in which half
// of the capacity leaks if that is shorter.
func (r *lastReply) rejectOthers(d time.Duration, shared bool) {
	if r.gotLess() || d == 0 {
		r.rejectTooLarge = r.sent + maxReject
	}
	if r.gotLess() && shared {
		r.rejectAll = r.sent + min(d, time.Duration(r.result.Limit.Capacity)*r.interval/2, maxReject)
	}
}

// rejectNone ends all rejections.
func (r *lastReply) rejectNone() { r.rejectTooLarge, r.rejectAll = 0, 0 }

// rejectedFor returns how long a call is rejected: 0 or less if it is not rejected.
func (r *lastReply) rejectedFor(at time.Duration, quantity int) time.Duration {
	wait := r.rejectAll - at
	if at < r.rejectTooLarge { // Redis decided after the call was sent: the tokens fit no sooner than this
		fits := time.Duration(quantity-r.result.Limit.Capacity)*r.interval + r.resetAfter(at)
		wait = max(wait, fits)
	}
	return wait
}

// resetAfter returns the time from an instant until the funnel is empty.
func (r *lastReply) resetAfter(at time.Duration) time.Duration {
	return max(0, r.result.ResetAfter-(at-r.sent))
}
