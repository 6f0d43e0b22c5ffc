package gcra

// Peek answers as [Rate.Decide] would, and pours nothing: Remaining and ResetAfter tell
// the state as it is. Arguments and errors are those of Decide.
//
//go:nosplit
func (r Rate) Peek(tat, now, quantity int64) (Decision, error) {
	decision, err := r.Decide(tat, now, quantity)
	if err == nil {
		r.unpour(&decision, max(tat, 0), max(now, 0))
	}
	return decision, err
}

// Charge books tokens that were used, whatever the funnel holds: the new TAT is
// max(now, tat) + T*quantity, so the funnel may become overfull, and a quantity above the
// capacity is fine. The Decision is that of a call with quantity 0 right after: Limited
// says that the funnel is overfull, and Wait for how long.
//
// Arguments and errors are those of [Rate.Decide].
//
//go:nosplit
func (r Rate) Charge(tat, now, quantity int64) (Decision, error) {
	increment, err := r.Increment(quantity)
	if err != nil {
		return Decision{}, err
	}
	if increment > 0 {
		filled := uint64(max(now, tat, 0)) + uint64(increment)
		if filled > maxInt63 {
			return Decision{}, ErrTAT
		}
		tat = int64(filled)
	}
	return r.Decide(tat, now, 0)
}

// Refund gives tokens back: the new TAT is tat - T*quantity, but never less than now.
// What has leaked cannot be given back, so a funnel never becomes emptier than empty. The
// Decision is that of a call with quantity 0 right after.
//
// Arguments and errors are those of [Rate.Decide]; there is no [ErrTAT].
//
//go:nosplit
func (r Rate) Refund(tat, now, quantity int64) (Decision, error) {
	increment, err := r.Increment(quantity)
	if err != nil {
		return Decision{}, err
	}
	if tat > now {
		tat = max(now, 0, tat-increment)
	}
	return r.Decide(tat, now, 0)
}

// unpour makes an answer tell the state of the funnel without what it poured.
//
//go:nosplit
func (r Rate) unpour(decision *Decision, tat, now int64) {
	decision.TAT = tat
	decision.ResetAfter = max(0, tat-now)
	// Decide has made sure that the interval is not 0; the compiler cannot know.
	decision.Remaining = max(0, r.tolerance-decision.ResetAfter) / max(1, r.emissionInterval)
}
