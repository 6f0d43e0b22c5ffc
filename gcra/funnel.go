package gcra

import "funnel/internal/decision"

// A Request asks one funnel for tokens. Make one with [Rate.Request], which checks the quantity.
type Request struct {
	rate      Rate
	quantity  int64
	increment int64 // the time in which the tokens leak
}

// Request asks a funnel of rate r for quantity tokens. A negative quantity is reported as
// [ErrQuantity], and the zero Rate as [ErrCapacity]. [ErrIncrement] says that the tokens would take
// 2^63 nanoseconds or more to leak.
//
//go:nosplit
func (r Rate) Request(quantity int64) (Request, error) {
	if r.emissionInterval < 1 {
		return Request{}, ErrCapacity
	}
	increment, err := r.Increment(quantity)
	if err != nil {
		return Request{}, err
	}
	return Request{rate: r, quantity: quantity, increment: increment}, nil
}

// RequestUpTo is Request for [Funnel.Take], which takes as many of the tokens as fit. No quantity
// is too large for it: [ErrIncrement] does not occur.
//
//go:nosplit
func (r Rate) RequestUpTo(quantity int64) (Request, error) {
	request, err := r.Request(min(quantity, r.capacity))
	if err == nil {
		request.quantity = quantity
	}
	return request, err
}

// Quantity is the number of tokens, at least 0.
//
//go:nosplit
func (r *Request) Quantity() int64 { return r.quantity }

// Increment is the time in which the tokens leak, in nanoseconds.
//
//go:nosplit
func (r *Request) Increment() int64 { return r.increment }

// A Funnel is the part of one call that concerns a funnel: the request, the state and the decision.
// Its methods are the operations on a funnel, at the instant now. Each method sets Decision and
// NewTAT, Take also sets Taken, and nothing else changes. Instants before 1970 count as 0.
//
// The only error of the methods is [ErrTAT]. After an error, do not use the decision.
type Funnel struct {
	Request Request
	TAT     int64 // as stored, or Empty

	// Decision is the answer. Limited says that not all tokens fit in time, or for Charge and
	// Refund that the funnel is overfull; Wait is then at least 1, and enough if no other call
	// takes tokens. Remaining is how many whole tokens fit right now, and ResetAfter is the time
	// until the funnel is empty.
	decision.Decision

	// NewTAT is the theoretical arrival time to keep for the next call, in nanoseconds since the
	// epoch. Store it if [Funnel.Changes]. An instant at or before now means that the funnel is
	// empty. If the call took tokens, NewTAT is the receipt for them: see [Funnel.Refund].
	NewTAT int64

	// Taken is how many tokens Take has taken: from 0 to the quantity.
	Taken int64
}

// Reserve takes the tokens if they fit, for a caller that can wait for maxWait nanoseconds: it also
// takes tokens that will fit by then. Wait says how long the caller has to wait. Until then the
// funnel is overfull and limits other callers. So reservations are served in the order of asking.
// If every caller waits that long, callers go ahead with at most capacity + elapsed/T tokens in any
// stretch of time.
//
// When the call is limited, Wait is the time after which the same reservation is allowed. A
// negative maxWait counts as 0. A quantity of 0 takes nothing.
//
// A stored TAT may come from another rate or another clock. If it is further ahead than the
// tolerance, the funnel is overfull: it limits every call until enough has leaked.
//
//go:nosplit
func (f *Funnel) Reserve(now, maxWait int64) error {
	tat, now := max(f.TAT, 0), max(now, 0)
	// Each of the four is below 2^63, so neither sum can wrap around in 64 bits.
	filled := uint64(max(now, tat)) + uint64(f.Request.increment)
	full := uint64(now) + uint64(f.Request.rate.tolerance)
	wait := int64(0)
	if filled > full {
		// At most max(now, tat) - now if the increment is no larger than the tolerance: it fits 63
		// bits.
		wait = int64(filled - full)
		maxWait = max(maxWait, 0)
		switch {
		case f.Request.increment > f.Request.rate.tolerance:
			f.report(tat, now, true, decision.Never)
			return nil
		case wait > maxWait:
			f.report(tat, now, true, wait-maxWait)
			return nil
		}
	}
	if filled > maxInt63 {
		return ErrTAT
	}
	if f.Request.quantity > 0 {
		tat = int64(filled)
	}
	f.report(tat, now, false, wait)
	return nil
}

// Take takes as many whole tokens as fit, up to the quantity of a [Rate.RequestUpTo]. It is limited
// if Taken is less than the quantity, and Wait is then the time until one more token fits.
//
//go:nosplit
func (f *Funnel) Take(now int64) error {
	tat, now := max(f.TAT, 0), max(now, 0)
	rate, begin := &f.Request.rate, max(now, tat)
	// Both numbers are at least 0 and fit 63 bits, so their difference cannot wrap around.
	room := rate.tolerance - (begin - now)
	// NewRate ensures that the interval is not 0; the compiler cannot know.
	f.Taken = min(max(0, room)/max(1, rate.emissionInterval), f.Request.quantity)
	taken := f.Taken * rate.emissionInterval // at most the tolerance
	if f.Taken > 0 {
		filled := uint64(begin) + uint64(taken)
		if filled > maxInt63 {
			return ErrTAT
		}
		tat = int64(filled)
	}
	limited, wait := f.Taken < f.Request.quantity, int64(0)
	if limited {
		// At most one interval, or for an overfull funnel tat - now: the tolerance is no less than
		// an interval.
		wait = rate.emissionInterval - (room - taken)
	}
	f.report(tat, now, limited, wait)
	return nil
}

// Peek decides like Reserve with a max wait of 0, and takes nothing: Remaining and ResetAfter are
// the state as it is.
//
//go:nosplit
func (f *Funnel) Peek(now int64) error {
	err := f.Reserve(now, 0)
	if err == nil {
		f.report(max(f.TAT, 0), max(now, 0), f.Limited, f.Wait)
	}
	return err
}

// Charge accounts for tokens that were used, whatever the funnel holds: the new TAT is max(now,
// TAT) + T*quantity. So the funnel may become overfull, and a quantity above the capacity is fine.
// Limited then says that the funnel is overfull, and Wait says for how long.
//
//go:nosplit
func (f *Funnel) Charge(now int64) error {
	tat, now := max(f.TAT, 0), max(now, 0)
	if f.Request.increment > 0 {
		filled := uint64(max(now, tat)) + uint64(f.Request.increment)
		if filled > maxInt63 {
			return ErrTAT
		}
		tat = int64(filled)
	}
	f.account(tat, now)
	return nil
}

// Refund gives tokens back: the new TAT is TAT - T*quantity, but never less than now, because
// tokens that have leaked cannot be given back. Limited says that the funnel is still overfull, and
// Wait says for how long.
//
// The receipt is the NewTAT of the call that took the tokens. With a receipt, the refund gives back
// only the tokens that have not leaked: at most receipt - now. The key then holds the same TAT as
// if the call had taken that much less, provided that no tokens of an earlier call were given back
// in between. With [NoReceipt], the refund may also take out tokens that other callers took later,
// and the bound does not hold for a while.
//
//go:nosplit
func (f *Funnel) Refund(now, receipt int64) {
	tat, now := max(f.TAT, 0), max(now, 0)
	if tat > now {
		back := min(f.Request.increment, max(receipt, now)-now)
		tat = max(now, tat-back)
	}
	f.account(tat, now)
}

// Undo reverses a Reserve that was allowed, because another row of the same call is limited: no
// tokens are taken. The decision stays allowed, without a wait, and describes the state as it is.
//
//go:nosplit
func (f *Funnel) Undo(now int64) { f.report(max(f.TAT, 0), max(now, 0), false, 0) }

// Changes reports whether the call changes the TAT, so that it must be stored.
//
//go:nosplit
func (f *Funnel) Changes() bool { return f.NewTAT != f.TAT }

// NoReceipt stands for the receipt in a refund that has none. No TAT is later.
const NoReceipt int64 = maxInt63

// report fills in the decision of a funnel that has this TAT after the call.
//
//go:nosplit
func (f *Funnel) report(tat, now int64, limited bool, wait int64) {
	rate, level := &f.Request.rate, max(0, tat-now)
	f.Asks = f.Request.quantity > 0
	f.Limited = limited
	f.Limit = rate.capacity
	// NewRate ensures that the interval is not 0; the compiler cannot know.
	f.Remaining = max(0, rate.tolerance-level) / max(1, rate.emissionInterval)
	f.Wait = wait
	f.ResetAfter = level
	f.NewTAT = tat
}

// account fills in the decision of a call that only accounts for tokens: it is limited if the
// funnel is overfull.
//
//go:nosplit
func (f *Funnel) account(tat, now int64) {
	over := max(0, max(0, tat-now)-f.Request.rate.tolerance)
	f.report(tat, now, over > 0, over)
}
