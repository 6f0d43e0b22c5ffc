// Package quota limits a sum: at most limit may be used until an instant, at which the period ends.
// It is how plans and budgets are sold: a million tokens this month, 1,000 requests until midnight.
// The package knows no calendar: each call says when its period ends, or how long a period lasts
// that begins with the call.
//
// # The state
//
// The state of a key is the sum that is used, and when the key expires, which is the end of the
// period in milliseconds, rounded up. A key that has expired counts as no key, so the next period
// begins with nothing used.
//
// # The period
//
// The period ends at the instant that the call names (until), or when the key expires if that is
// earlier. So a caller whose clock is ahead, and asks for the next period too early, is counted in
// the period that runs. A call whose until has passed gets [ErrEnded], except for a refund, which
// then does nothing. A key that expires later than until is cut: it expires at until from then on,
// even if the call is limited. Otherwise one caller whose clock is years ahead would lock a key for
// years.
//
// # Windows
//
// A call may instead say how long a period lasts (a window). It is counted in the period that runs,
// whatever the end of that period, and cuts nothing. If none runs, one begins now; it ends at the
// first whole millisecond that is no earlier than now and the length of the window. A key that does
// not expire gets the same end. So "5 tries in 15 minutes" begins with the first try, and needs no
// clock of the caller.
//
// # Units
//
// Every instant and span is a count of nanoseconds in an int64, but a key expires at a millisecond.
// Instants count from the Unix epoch. A sum that does not fit 63 bits is an [Error] rather than a
// wrong answer.
//
// The package reads no clock and allocates nothing. Package funnel/module/command runs it inside a
// server without the Go runtime, so it must not need the runtime even for more stack: hence the
// directive go:nosplit at each function.
package quota

import "funnel/internal/decision"

const (
	nanosecondsPerMillisecond = 1_000_000
	maxInt63                  = 1<<63 - 1
)

// A Request asks to use a quantity of a quota. Make one with [NewRequest] or [NewWindowRequest].
type Request struct {
	limit, quantity int64
	until           int64 // when the period ends; for a window, 0
	lasts           int64 // how long a window lasts; else 0
}

// NewRequest asks to use quantity, of which at most limit may be used until the instant until.
// Limit and quantity are at least 0, until is at least 1; smaller values are reported as
// [ErrLimit], [ErrQuantity] and [ErrUntil]. A quantity of 0 uses nothing, and is never limited.
//
//go:nosplit
func NewRequest(limit, until, quantity int64) (Request, error) {
	switch {
	case limit < 0:
		return Request{}, ErrLimit
	case until < 1:
		return Request{}, ErrUntil
	case quantity < 0:
		return Request{}, ErrQuantity
	}
	return Request{limit: limit, quantity: quantity, until: until}, nil
}

// NewWindowRequest asks to use quantity, of which at most limit may be used in the period that
// runs. If none runs, one begins, and lasts that many nanoseconds, at least a millisecond. Smaller
// values are reported as [ErrLasts], and others as by NewRequest.
//
//go:nosplit
func NewWindowRequest(limit, lasts, quantity int64) (Request, error) {
	switch {
	case limit < 0:
		return Request{}, ErrLimit
	case lasts < nanosecondsPerMillisecond:
		return Request{}, ErrLasts
	case quantity < 0:
		return Request{}, ErrQuantity
	}
	return Request{limit: limit, quantity: quantity, lasts: lasts}, nil
}

// Quantity is how much the call asks to use, at least 0.
//
//go:nosplit
func (r *Request) Quantity() int64 { return r.quantity }

// Ended reports whether the period that the call names has ended: now is not before until. A window
// names no period, so it has not ended.
//
//go:nosplit
func (r *Request) Ended(now int64) bool { return now >= r.until && r.lasts == 0 }

// A State is the stored state of a quota. In the zero State nothing is used.
type State struct {
	// Used is the sum that is used, at least 0.
	Used int64

	// Expiry is when the key expires, in milliseconds. A key with an Expiry of 0 or less does not
	// expire: its period ends at until, or when a window that begins now ends.
	Expiry int64
}

// Expired reports whether the key counts as no key at the instant now.
//
//go:nosplit
func (s State) Expired(now int64) bool {
	return s.Expiry > 0 && s.Expiry <= now/nanosecondsPerMillisecond
}

// A Quota is the part of one call that concerns a quota: the request, the state and the decision.
// Its methods are the operations on a quota, at the instant now. Each method sets Decision, Until
// and NewState, Take also sets Taken, and a State that has expired becomes the zero State. Nothing
// else changes. Instants before 1970 count as 0.
//
// The errors of the methods are [ErrEnded], for a window that would begin [ErrEnd], and for Charge
// [ErrUsed]. After an error, do not use the decision.
type Quota struct {
	Request Request
	State   State

	// Decision is the answer. Limited says that the quantity did not fit, or for Charge that more
	// than the limit is used; Wait is then the time until the period ends. Remaining is how much
	// may still be used, and ResetAfter is the time until the period ends, or 0 if nothing is used.
	decision.Decision

	// Until is the end of the period that counted the call, or 0 if the call used nothing. It is
	// the receipt: a refund names the period by its end.
	Until int64

	// NewState is the state after the call. Store it if [Quota.Changes]; if its Used is 0, delete
	// the key.
	NewState State

	// Taken is how much Take has taken: from 0 to the quantity.
	Taken int64
}

// Reserve uses the quantity if all of it fits.
//
//go:nosplit
func (q *Quota) Reserve(now int64) error {
	now = max(now, 0)
	end, err := q.begin(now)
	if err != nil {
		return err
	}
	request, used := &q.Request, q.State.Used
	// Neither number is negative, so the difference fits.
	if request.quantity > 0 && request.quantity > request.limit-used {
		q.report(used, end, now)
		q.limit(request.quantity, end, now)
		return nil
	}
	q.report(used+request.quantity, end, now)
	return nil
}

// Take uses as much of the quantity as fits. It is limited if Taken is less than the quantity.
//
//go:nosplit
func (q *Quota) Take(now int64) error {
	now = max(now, 0)
	end, err := q.begin(now)
	if err != nil {
		return err
	}
	request, used := &q.Request, q.State.Used
	q.Taken = min(request.quantity, max(0, request.limit-used))
	q.report(used+q.Taken, end, now)
	if q.Taken < request.quantity {
		q.limit(1, end, now)
	}
	return nil
}

// Peek decides like Reserve, and uses nothing: Remaining and ResetAfter are the state as it is.
//
//go:nosplit
func (q *Quota) Peek(now int64) error {
	err := q.Reserve(now)
	if err != nil {
		return err
	}
	limited, wait := q.Limited, q.Wait
	q.Undo(now)
	q.Limited, q.Wait = limited, wait
	q.NewState = q.State
	return nil
}

// Charge accounts for a quantity that was used, whatever the limit. Limited then says that more
// than the limit is used, and Wait says how long the period still lasts.
//
//go:nosplit
func (q *Quota) Charge(now int64) error {
	now = max(now, 0)
	end, err := q.begin(now)
	if err != nil {
		return err
	}
	request := &q.Request
	used := uint64(q.State.Used) + uint64(request.quantity) // both are below 2^63
	if used > maxInt63 {
		return ErrUsed
	}
	q.report(int64(used), end, now)
	if request.quantity > 0 && int64(used) > request.limit {
		q.limit(0, end, now)
	}
	return nil
}

// Refund gives back a quantity that was used in the period that ends at until. If that period has
// ended, Refund does nothing, and the decision describes the key as it is. Refund never cuts the
// period. The request of a window names no period: Refund then gives back in the period that runs.
//
//go:nosplit
func (q *Quota) Refund(now int64) {
	now = max(now, 0)
	end, err := q.begin(now)
	if err != nil {
		q.report(q.State.Used, now, now)
		q.ResetAfter = timeUntil(q.State.Expiry, now)
		q.NewState = q.State
		return
	}
	q.report(max(0, q.State.Used-q.Request.quantity), end, now)
	after := &q.NewState
	if after.Used > 0 && (q.State.Expiry > 0 || after.Used == q.State.Used) {
		after.Expiry = q.State.Expiry
	}
}

// Undo reverses a Reserve that was allowed, because another row of the same call is limited:
// nothing is used. The decision stays allowed, and describes the state as it is. A period that the
// call has cut stays cut.
//
//go:nosplit
func (q *Quota) Undo(now int64) {
	now = max(now, 0)
	end, _ := q.begin(now)
	q.report(q.State.Used, end, now)
}

// Changes reports whether the call changes the state, so that it must be stored.
//
//go:nosplit
func (q *Quota) Changes() bool {
	after := &q.NewState
	return after.Used != q.State.Used || after.Used > 0 && after.Expiry != q.State.Expiry
}

// begin returns the end of the period, at most 2^63-1. If the key has expired, it first begins a
// new period: the State becomes the zero State.
//
//go:nosplit
func (q *Quota) begin(now int64) (end int64, err error) {
	if q.State.Expired(now) {
		q.State = State{}
	}
	if q.Request.Ended(now) {
		return 0, ErrEnded
	}
	expiry := int64(maxInt63)
	if q.State.Expiry > 0 && q.State.Expiry <= maxInt63/nanosecondsPerMillisecond {
		expiry = q.State.Expiry * nanosecondsPerMillisecond
	}
	switch {
	case q.Request.lasts == 0:
		return min(q.Request.until, expiry), nil
	case q.State.Expiry > 0:
		return expiry, nil
	}
	sum := uint64(now) + uint64(q.Request.lasts) // both are below 2^63
	milliseconds := inMilliseconds(min(sum, maxInt63))
	if milliseconds > maxInt63/nanosecondsPerMillisecond {
		return 0, ErrEnd
	}
	return milliseconds * nanosecondsPerMillisecond, nil
}

// report fills in the decision of a call that is not limited. After the call, used is the sum that
// is used in the period that ends at end.
//
//go:nosplit
func (q *Quota) report(used, end, now int64) {
	q.Asks = q.Request.quantity > 0
	q.Limited = false
	q.Limit = q.Request.limit
	q.Remaining = max(0, q.Request.limit-used)
	q.Wait = 0
	q.ResetAfter = 0
	q.Until = 0
	q.NewState = State{Used: used}
	if used > 0 {
		q.ResetAfter = end - now
		q.NewState.Expiry = inMilliseconds(uint64(end))
		if q.Request.lasts > 0 && q.State.Expiry > 0 {
			q.NewState.Expiry = q.State.Expiry // which may be beyond 2^63-1 nanoseconds
		}
	}
	if used > q.State.Used {
		q.Until = end
	}
}

// limit makes the call limited: until the period ends, or for ever if needed is more than the
// limit.
//
//go:nosplit
func (q *Quota) limit(needed, end, now int64) {
	q.Limited = true
	q.Wait = decision.Never
	if needed <= q.Request.limit {
		q.Wait = end - now
	}
}

// inMilliseconds converts nanoseconds, at most 2^63-1, to milliseconds, rounded up.
//
//go:nosplit
func inMilliseconds(nanoseconds uint64) int64 {
	return int64((nanoseconds + nanosecondsPerMillisecond - 1) / nanosecondsPerMillisecond)
}

// timeUntil is the time from now until a key expires, at most 2^63-1 nanoseconds, or 0 if it does
// not expire.
//
//go:nosplit
func timeUntil(expiry, now int64) int64 {
	milliseconds := expiry - now/nanosecondsPerMillisecond
	switch {
	case expiry <= 0 || milliseconds <= 0:
		return 0
	case milliseconds > maxInt63/nanosecondsPerMillisecond+1:
		return maxInt63
	}
	exact := uint64(milliseconds)*nanosecondsPerMillisecond - uint64(now%nanosecondsPerMillisecond)
	return int64(min(exact, maxInt63))
}
