package gcra

// An Ask is a call of one funnel, and its answer. Its methods are the operations of a
// funnel; each sets Decision, and changes nothing else.
//
// Their errors are those of [Rate.Decide]: [ErrQuantity], [ErrCapacity], [ErrIncrement] and
// [ErrTAT]. The Decision beside an error is zero.
type Ask struct {
	Rate     Rate
	TAT      int64 // as stored, or Empty
	Quantity int64 // tokens, at least 0

	Decision Decision
}

// Reserve pours the tokens at the instant now, as [Rate.Decide] does, for a caller who can
// wait for longestWait nanoseconds: it also takes tokens that will have leaked by then.
// Decision.Wait says when it is the caller's turn. Until then the funnel is overfull and
// limits others, so turns come in the order of asking, and the tokens of those who go
// ahead at their turns never exceed capacity + elapsed/T, in any stretch of time.
//
// When the call is limited, Decision.Wait is the time after which the same reservation is
// allowed. A negative longestWait counts as 0, which is Decide.
//
//go:nosplit
func (a *Ask) Reserve(now, longestWait int64) error {
	increment, err := a.begin()
	if err != nil {
		return err
	}
	now = max(now, 0)
	tat, tolerance, decision := max(a.TAT, 0), a.Rate.tolerance, &a.Decision

	// Each of the four is below 2^63, so neither sum can wrap around in 64 bits.
	filled := uint64(max(now, tat)) + uint64(increment)
	full := uint64(now) + uint64(tolerance)
	if filled > full {
		// At most max(now, tat) - now if the increment is no larger than the
		// tolerance: it fits 63 bits.
		over := int64(filled - full)
		switch {
		case increment > tolerance:
			decision.Wait = Never
			a.tell(tat, now, true)
			return nil
		case over > max(longestWait, 0):
			decision.Wait = over - max(longestWait, 0)
			a.tell(tat, now, true)
			return nil
		}
		decision.Wait = over
	}
	if filled > maxInt63 {
		a.Decision = Decision{}
		return ErrTAT
	}
	if a.Quantity > 0 {
		tat = int64(filled)
	}
	a.tell(tat, now, false)
	return nil
}

// Peek answers as Reserve with a longest wait of 0 would, and pours nothing: Remaining and
// ResetAfter tell the state as it is.
//
//go:nosplit
func (a *Ask) Peek(now int64) error {
	err := a.Reserve(now, 0)
	if err == nil {
		a.tell(max(a.TAT, 0), max(now, 0), a.Decision.Limited)
	}
	return err
}

// Charge books tokens that were used, whatever the funnel holds: the new TAT is
// max(now, TAT) + T*quantity, so the funnel may become overfull, and a quantity above the
// capacity is fine. Limited says that the funnel is overfull then, and Wait for how long.
//
//go:nosplit
func (a *Ask) Charge(now int64) error {
	increment, err := a.begin()
	if err != nil {
		return err
	}
	tat := max(a.TAT, 0)
	if increment > 0 {
		filled := uint64(max(now, tat)) + uint64(increment)
		if filled > maxInt63 {
			a.Decision = Decision{}
			return ErrTAT
		}
		tat = int64(filled)
	}
	a.tellOver(tat, max(now, 0))
	return nil
}

// Refund gives tokens back: the new TAT is TAT - T*quantity, but never less than now, for
// what has leaked cannot be given back. Limited says that the funnel is overfull even
// then, and Wait for how long. There is no [ErrTAT].
//
//go:nosplit
func (a *Ask) Refund(now int64) error {
	increment, err := a.begin()
	if err != nil {
		return err
	}
	tat := max(a.TAT, 0)
	if tat > now {
		tat = max(now, 0, tat-increment)
	}
	a.tellOver(tat, max(now, 0))
	return nil
}

// An Operation is what a call does to its funnels: the method of [Ask] of that name.
type Operation uint32

// The operations.
const (
	Reserve Operation = iota
	Peek
	Charge
	Refund
)

// Decide decides calls of different funnels as one, at the instant now. Reservations are
// poured all, or none if one is limited; the other operations are made of each. Limited
// and Wait are what a funnel says alone; the other fields of its Decision tell the state
// after the call as a whole. LongestWait, in nanoseconds, is that of [Ask.Reserve]; for
// several funnels it is 0.
//
// After an error, which is that of the first Ask that has one, failed is its index, and
// nothing is poured: the other Decisions are not to be used.
//
//go:nosplit
func (operation Operation) Decide(asks []Ask, now, longestWait int64) (failed int, err error) {
	if operation == Reserve {
		return reserveAll(asks, now, longestWait)
	}
	for i := range asks {
		switch operation {
		case Peek:
			err = asks[i].Peek(now)
		case Charge:
			err = asks[i].Charge(now)
		default:
			err = asks[i].Refund(now)
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// reserveAll reserves in all funnels, or in none if one is limited.
//
//go:nosplit
func reserveAll(asks []Ask, now, longestWait int64) (failed int, err error) {
	limited := false
	for i := range asks {
		if err := asks[i].Reserve(now, longestWait); err != nil {
			return i, err
		}
		limited = limited || asks[i].Decision.Limited
	}
	if !limited {
		return 0, nil
	}
	for i := range asks {
		if ask := &asks[i]; !ask.Decision.Limited {
			ask.tell(max(ask.TAT, 0), max(now, 0), false)
		}
	}
	return 0, nil
}

// Together is what several answers say as one: limited if one of them is, and the
// longest wait, or [Never] if one of them says so.
//
//go:nosplit
func Together(asks []Ask) (limited bool, wait int64) {
	for i := range asks {
		decision := &asks[i].Decision
		limited = limited || decision.Limited
		if decision.Wait == Never || wait == Never {
			wait = Never
		} else {
			wait = max(wait, decision.Wait)
		}
	}
	return limited, wait
}

// begin checks the question, clears the answer, and returns the time in which the tokens
// leak.
//
//go:nosplit
func (a *Ask) begin() (increment int64, err error) {
	a.Decision = Decision{}
	if a.Rate.emissionInterval < 1 {
		return 0, ErrCapacity
	}
	return a.Rate.Increment(a.Quantity)
}

// tell fills in the answer of a funnel that has this TAT after the call. Wait is set.
//
//go:nosplit
func (a *Ask) tell(tat, now int64, limited bool) {
	decision := &a.Decision
	decision.Limited = limited
	decision.Limit = a.Rate.capacity
	decision.ResetAfter = max(0, tat-now)
	// begin has made sure that the interval is not 0; the compiler cannot know.
	decision.Remaining = max(0, a.Rate.tolerance-decision.ResetAfter) / max(1, a.Rate.emissionInterval)
	decision.TAT = tat
}

// tellOver is tell for calls that ask nothing: limited is a funnel that is overfull.
//
//go:nosplit
func (a *Ask) tellOver(tat, now int64) {
	over := max(0, tat-now) - a.Rate.tolerance
	a.Decision.Wait = max(0, over)
	a.tell(tat, now, over > 0)
}
