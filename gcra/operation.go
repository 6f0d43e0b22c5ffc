package gcra

// A Request asks one funnel for tokens, or for one of several slots. Make one with
// [Rate.Request], which checks the quantity, or with [SlotsRequest].
type Request struct {
	rate      Rate // of slots, the capacity is their limit
	quantity  int64
	increment int64 // the time in which the tokens leak; of slots, ttl
	isSlots   bool
}

// Request asks a funnel of rate r for quantity tokens. A negative quantity is reported as
// [ErrQuantity], and the zero Rate as [ErrCapacity]. [ErrIncrement] says that the tokens
// would take 2^63 nanoseconds or more to leak.
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

// RequestUpTo is Request for [Item.Take], which takes as many of the tokens as fit. No
// quantity is too large for it: [ErrIncrement] does not occur.
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

// An Item is one funnel of a call: the request and the decision. Its methods are the
// operations of a funnel, at the instant now. Each sets Decision, Take also sets Taken, and
// nothing else changes. Instants before 1970 count as 0.
//
// The TAT of a Decision that took tokens is the receipt for them, see [Item.Refund].
//
// Their only error is [ErrTAT]. With it, do not use the Decision.
type Item struct {
	Request  Request
	TAT      int64 // as stored, or Empty
	Decision Decision
	Taken    int64 // by Take: from 0 to the quantity

	Running, First, Last int64 // of slots alone: see [SlotsRequest]
}

// Reserve takes the tokens, like [Rate.Decide], for a caller that can wait for
// maxWait nanoseconds: it also takes tokens that will fit by then. Decision.Wait says
// how long the caller has to wait. Until then the funnel is overfull and limits others.
// So reservations are served in the order of asking. If callers wait as told, they go
// ahead with at most capacity + elapsed/T tokens in any stretch of time.
//
// When the call is limited, Decision.Wait is the time after which the same reservation is
// allowed. A negative maxWait counts as 0, which is Decide.
//
//go:nosplit
func (item *Item) Reserve(now, maxWait int64) error {
	tat, now := max(item.TAT, 0), max(now, 0)
	// Each of the four is below 2^63, so neither sum can wrap around in 64 bits.
	filled := uint64(max(now, tat)) + uint64(item.Request.increment)
	full := uint64(now) + uint64(item.Request.rate.tolerance)
	wait := int64(0)
	if filled > full {
		// At most max(now, tat) - now if the increment is no larger than the tolerance:
		// it fits 63 bits.
		wait = int64(filled - full)
		maxWait = max(maxWait, 0)
		switch {
		case item.Request.increment > item.Request.rate.tolerance:
			item.decide(tat, now, true, Never)
			return nil
		case wait > maxWait:
			item.decide(tat, now, true, wait-maxWait)
			return nil
		}
	}
	if filled > maxInt63 {
		return ErrTAT
	}
	if item.Request.quantity > 0 {
		tat = int64(filled)
	}
	item.decide(tat, now, false, wait)
	return nil
}

// Take takes as many whole tokens as fit, up to the quantity of a [Rate.RequestUpTo]. It is
// limited if Taken is less than the quantity, and Decision.Wait is then the time until one
// more token fits.
//
//go:nosplit
func (item *Item) Take(now int64) error {
	tat, now := max(item.TAT, 0), max(now, 0)
	rate, begin := &item.Request.rate, max(now, tat)
	// Both are at least 0 and fit 63 bits, so their difference cannot wrap around.
	room := rate.tolerance - (begin - now)
	// NewRate ensures that the interval is not 0; the compiler cannot know.
	item.Taken = min(max(0, room)/max(1, rate.emissionInterval), item.Request.quantity)
	taken := item.Taken * rate.emissionInterval // at most the tolerance
	if item.Taken > 0 {
		filled := uint64(begin) + uint64(taken)
		if filled > maxInt63 {
			return ErrTAT
		}
		tat = int64(filled)
	}
	limited, wait := item.Taken < item.Request.quantity, int64(0)
	if limited {
		// At most one interval, or for an overfull funnel tat - now: the tolerance is no less
		// than an interval.
		wait = rate.emissionInterval - (room - taken)
	}
	item.decide(tat, now, limited, wait)
	return nil
}

// Peek decides like Reserve with a max wait of 0, and takes nothing: Remaining and
// ResetAfter are the state as it is.
//
//go:nosplit
func (item *Item) Peek(now int64) error {
	err := item.Reserve(now, 0)
	if err == nil {
		item.decide(max(item.TAT, 0), max(now, 0), item.Decision.Limited, item.Decision.Wait)
	}
	return err
}

// Charge accounts for tokens that were used, whatever the funnel holds: the new TAT is
// max(now, TAT) + T*quantity, so the funnel may become overfull, and a quantity above the
// capacity is fine. Limited then says that the funnel is overfull, and Wait for how long.
//
//go:nosplit
func (item *Item) Charge(now int64) error {
	tat, now := max(item.TAT, 0), max(now, 0)
	if item.Request.increment > 0 {
		filled := uint64(max(now, tat)) + uint64(item.Request.increment)
		if filled > maxInt63 {
			return ErrTAT
		}
		tat = int64(filled)
	}
	item.decideOverfull(tat, now)
	return nil
}

// Refund gives tokens back: the new TAT is TAT - T*quantity, but never less than now,
// because tokens that have leaked cannot be given back. Limited says that the funnel is
// still overfull, and Wait for how long.
//
// The receipt is the TAT of the Decision by which the tokens were taken. With it, the refund
// gives back no more than what of these tokens has not leaked: at most receipt - now. The
// key then holds the TAT that it would if the call had taken so much less, provided that no
// earlier call's tokens were given back in between. With [NoReceipt] the refund also takes
// out tokens that others took later, and the bound does not hold for a while.
//
//go:nosplit
func (item *Item) Refund(now, receipt int64) {
	tat, now := max(item.TAT, 0), max(now, 0)
	if tat > now {
		back := min(item.Request.increment, max(receipt, now)-now)
		tat = max(now, tat-back)
	}
	item.decideOverfull(tat, now)
}

// NoReceipt is the receipt of a refund without one: no TAT is later.
const NoReceipt int64 = maxInt63

// decide fills in the Decision of a funnel that has this TAT after the call.
//
//go:nosplit
func (item *Item) decide(tat, now int64, limited bool, wait int64) {
	rate, level := &item.Request.rate, max(0, tat-now)
	item.Decision.Limited = limited
	item.Decision.Limit = rate.capacity
	// NewRate ensures that the interval is not 0; the compiler cannot know.
	item.Decision.Remaining = max(0, rate.tolerance-level) / max(1, rate.emissionInterval)
	item.Decision.Wait = wait
	item.Decision.ResetAfter = level
	item.Decision.TAT = tat
}

// decideOverfull fills in the Decision of a call that only accounts for tokens: it is limited if
// the funnel is overfull.
//
//go:nosplit
func (item *Item) decideOverfull(tat, now int64) {
	over := max(0, max(0, tat-now)-item.Request.rate.tolerance)
	item.decide(tat, now, over > 0, over)
}

// An Operation is what a call does to its funnels: the method of [Item] of that name.
type Operation uint32

// The operations.
const (
	Reserve Operation = iota
	Take
	Peek
	Charge
	Refund
)

// Decide decides a call over different funnels and slots as one, at the instant now. Reserve takes
// tokens from all funnels, or from none if one is limited; the other operations apply to
// each. Limited and Wait of a Decision are what its funnel says alone; the other fields
// are the state after the whole call. The call is limited if an item is, and its wait is the
// [Longer] of all waits.
//
// MaxWait is for Reserve alone, in nanoseconds, and 0 for several funnels. Receipt is for
// Refund alone: the TAT of the Decision by which the tokens were taken, or [NoReceipt]. Take is
// not for slots.
//
// An error is the first item's that has one, at the index failed. Then no tokens are
// taken, and no Decision may be used.
//
//go:nosplit
func (operation Operation) Decide(items []Item, now, maxWait, receipt int64) (failed int, err error) {
	for i := range items {
		switch item := &items[i]; {
		case item.Request.isSlots:
			err = item.decideSlots(operation, now)
		case operation == Reserve:
			err = item.Reserve(now, maxWait)
		case operation == Take:
			err = item.Take(now)
		case operation == Peek:
			err = item.Peek(now)
		case operation == Charge:
			err = item.Charge(now)
		default:
			item.Refund(now, receipt)
		}
		if err != nil {
			return i, err
		}
	}
	if operation == Reserve && len(items) > 1 {
		allOrNothing(items, now)
	}
	return 0, nil
}

// allOrNothing corrects the decisions of funnels that would have allowed a call that others
// limit: nothing was taken from them.
//
//go:nosplit
func allOrNothing(items []Item, now int64) {
	limited := false
	for i := range items {
		limited = limited || items[i].Decision.Limited
	}
	for i := range items {
		switch item := &items[i]; {
		case item.Decision.Limited, !limited:
		case item.Request.isSlots:
			item.decideSlotsState(item.TAT, max(now, 0))
		default:
			item.decide(max(item.TAT, 0), max(now, 0), false, 0)
		}
	}
}

// Longer returns the longer of two waits. [Never] is longer than any, because -1 is the
// largest unsigned number.
//
//go:nosplit
func Longer(a, b int64) int64 { return int64(max(uint64(a), uint64(b))) }
