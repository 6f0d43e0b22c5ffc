package gcra

// An Ask is a call of one funnel among several that are decided as one.
type Ask struct {
	Rate          Rate
	TAT, Quantity int64 // as [Rate.Decide] takes them

	// Decision is the answer, which DecideAll sets: Limited and Wait are what this
	// funnel says alone, Remaining, ResetAfter and TAT tell the state after the
	// call as a whole.
	Decision Decision
}

// DecideAll decides several calls of different funnels at the instant now: all of them
// are poured, or, if one is limited, none.
//
// An error is that of [Rate.Decide] for the first Ask that has one, and failed its index.
// Then nothing is poured.
//
//go:nosplit
func DecideAll(asks []Ask, now int64) (failed int, err error) {
	limited := false
	for i := range asks {
		ask := &asks[i]
		ask.Decision, err = ask.Rate.Decide(ask.TAT, now, ask.Quantity)
		if err != nil {
			return i, err
		}
		limited = limited || ask.Decision.Limited
	}
	if limited {
		for i := range asks {
			ask := &asks[i]
			ask.Rate.unpour(&ask.Decision, max(ask.TAT, 0), max(now, 0))
		}
	}
	return 0, nil
}

// Together is what several decisions say as one: limited if one of them is, and the
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
