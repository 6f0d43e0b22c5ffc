package throttle

import (
	"unsafe"

	"funnel/gcra"
)

// parseFunnels validates the arguments of a command that takes several funnels, before
// their keys are read. C calls it as go_parse_funnels.
//
//go:nosplit
func parseFunnels(call *FunnelsCall) {
	for i := uint(0); i < MostFunnels && i < uint(call.Length); i++ {
		call.name(i)
		if !call.Funnels[i].parse(call.LimitSurplus, &call.Asks[i], &call.Outcome) {
			return
		}
	}
	call.Outcome.Funnel = 0
	if !call.parseMaxWait() || call.namesAKeyTwice() {
		return
	}
	call.Outcome.Verdict = Parsed
}

// parseMaxWait validates max_wait, which is 0 when it is left out. Otherwise it writes an
// error, and returns false.
//
//go:nosplit
func (call *FunnelsCall) parseMaxWait() (ok bool) {
	call.LongestWait = 0
	if unsafe.StringData(call.MaxWait) == nil {
		return true
	}
	longestWait, ok := parseSeconds(call.MaxWait)
	switch {
	case !ok:
		return call.Outcome.failArgument(badMaxWait, call.MaxWait)
	case longestWait > 0 && call.Length > 1:
		return call.Outcome.failArgument(badMaxWaitOfSeveral, call.MaxWait)
	}
	call.LongestWait = longestWait
	return true
}

// decideFunnels answers a call that parseFunnels has accepted, from what the keys hold
// and the time. C calls it as go_decide_funnels.
//
//go:nosplit
func decideFunnels(call *FunnelsCall) {
	asks := call.Asks[:min(call.Length, MostFunnels)]
	for i := range asks {
		call.name(uint(i))
		if !call.Funnels[i].readStored(&asks[i], &call.Outcome) {
			return
		}
	}
	if failed, err := call.Command.Decide(asks, call.Now, call.LongestWait); err != nil && failed >= 0 && failed < MostFunnels {
		call.name(uint(failed))
		call.Outcome.failTogether(err, &call.Funnels[failed])
		return
	}
	call.reply(asks)
}

// reply answers with decisions.
//
//go:nosplit
func (call *FunnelsCall) reply(asks []gcra.Ask) {
	limited, wait := gcra.Together(asks)
	call.Limited = number(limited)
	call.Writes = 0
	peeked := true
	for i := 0; i < MostFunnels && i < len(asks); i++ {
		ask, funnel, row := &asks[i], &call.Funnels[i], &call.Rows[i]
		decision := &ask.Decision
		row.Limited = number(decision.Limited)
		row.Limit = decision.Limit
		row.Remaining = decision.Remaining
		row.Wait.setSeconds(decision.Wait)
		if decision.Wait == wait {
			call.Wait = row.Wait
		}
		row.ResetAfter.setSeconds(decision.ResetAfter)
		peeked = peeked && ask.Quantity == 0
		switch {
		case decision.TAT == ask.TAT:
			funnel.Write = WriteNothing
			continue
		case decision.TAT <= call.Now:
			funnel.Write = WriteDeletion
		default:
			funnel.writeTAT(decision.TAT)
		}
		call.Writes++
	}
	switch {
	case peeked || call.Command == gcra.Peek:
		call.Outcome.Verdict = Peeked
	case call.Command == gcra.Charge:
		call.Outcome.Verdict = Charged
	case call.Command == gcra.Refund:
		call.Outcome.Verdict = Refunded
	case limited:
		call.Outcome.Verdict = Limited
	default:
		call.Outcome.Verdict = Allowed
	}
}

// name has errors name the funnel of an index, if there are several.
//
//go:nosplit
func (call *FunnelsCall) name(index uint) {
	number := uint32(index) + 1
	if call.Length == 1 {
		number = 0
	}
	call.Outcome.Funnel = number
}

// namesAKeyTwice writes an error if two funnels have the same key.
//
//go:nosplit
func (call *FunnelsCall) namesAKeyTwice() bool {
	for second := uint(1); second < MostFunnels && second < uint(call.Length); second++ {
		key := call.Funnels[second].Key
		for first := uint(0); first < second; first++ {
			if same(call.Funnels[first].Key, key) {
				call.name(second)
				call.Outcome.fail(keyTwice)
				return true
			}
		}
	}
	return false
}

// same compares two strings: the operator of Go calls the runtime. From the end, since
// keys are more likely to begin alike.
//
//go:nosplit
func same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

//go:nosplit
func number(isTrue bool) int64 {
	if isTrue {
		return 1
	}
	return 0
}
