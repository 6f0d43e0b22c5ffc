package answer

import (
	"unsafe"

	"funnel/gcra"
)

// parse validates the arguments of a call before its keys are read, as the server's own
// commands do. C calls it as go_parse.
//
//go:nosplit
func parse(call *Call) {
	length := min(call.Length, MostFunnels)
	for i := range length {
		call.name(uint(i))
		if !call.Funnels[i].parse(call, &call.Parts[i].Request) {
			return
		}
	}
	call.Outcome.Funnel = 0
	if !call.parseLastWord() || length > 1 && call.namesAKeyTwice() {
		return
	}
	call.Outcome.Verdict = Parsed
}

// readsTokens and countsTokens validate the words "TOKENS count" of GCRA, which may be left
// out. If they were inlined, their caller would exceed the stack limit, as of message.add.
//
//go:noinline
//go:nosplit
func (call *Call) readsTokens() bool {
	return unsafe.StringData(call.LastWord) == nil || isTokens(call.LastWord)
}

//go:noinline
//go:nosplit
func (funnel *Funnel) countsTokens() bool {
	count, ok := parseInteger(funnel.Quantity)
	return ok && count > 0
}

// parseLastWord validates the word behind the funnels, which may be left out: max_wait, or
// for CL.REFUND tat. Otherwise it writes an error, and returns false.
//
//go:nosplit
func (call *Call) parseLastWord() (ok bool) {
	isLeftOut := unsafe.StringData(call.LastWord) == nil
	switch {
	case call.Operation == gcra.Refund:
		call.Last = gcra.NoReceipt
		return isLeftOut || call.parseTAT()
	case isLeftOut, call.Outcome.Wording == OfGCRA:
		call.Last = 0
		return true
	}
	if call.Last, ok = parseSeconds(call.LastWord); !ok {
		return call.Outcome.failArgument(badMaxWait, call.LastWord)
	}
	if call.Last > 0 && call.Length > 1 {
		return call.Outcome.failArgument(badMaxWaitOfSeveral, call.LastWord)
	}
	return true
}

//go:nosplit
func (call *Call) parseTAT() (ok bool) {
	if call.Last, ok = parseInteger(call.LastWord); !ok {
		return call.Outcome.failArgument(badTAT, call.LastWord)
	}
	if call.Length > 1 {
		return call.Outcome.fail(badTATOfSeveral)
	}
	return true
}

// decide answers a call that parse has accepted, from the stored values and the time. C
// calls it as go_decide.
//
//go:nosplit
func decide(call *Call) {
	parts := call.Parts[:min(call.Length, MostFunnels)]
	for i := range parts {
		if !call.Funnels[i].readStored(&parts[i].TAT) {
			call.failStored(uint(i))
			return
		}
	}
	if failed, err := call.Operation.Decide(parts, call.Now, call.Last, call.Last); err != nil && failed >= 0 && failed < MostFunnels {
		call.name(uint(failed))
		call.Outcome.failTogether(err, &call.Funnels[failed])
		return
	}
	call.Writes = 0
	for i := range parts {
		call.Funnels[i].Write = WriteNothing
		if tat := parts[i].Decision.TAT; tat != parts[i].TAT {
			call.Funnels[i].write(tat, max(call.Now, 0))
			call.Writes++
		}
	}
	asked, limited, wait := together(parts)
	call.Outcome.Verdict = call.verdict(asked, limited)
	if call.Form == InSeconds {
		call.replyInSeconds(&call.Parts[0].Decision)
	} else {
		call.replyInRows(parts, limited, wait)
	}
}

// together sums a call up: whether it asks for tokens, is limited, and how long to wait.
//
//go:nosplit
func together(parts []gcra.Item) (asked, limited bool, wait int64) {
	for i := range parts {
		part := &parts[i]
		asked = asked || part.Request.Quantity() > 0
		limited = limited || part.Decision.Limited
		wait = gcra.Longer(wait, part.Decision.Wait)
	}
	return asked, limited, wait
}

// verdict is the outcome that INFO counts for a call.
//
//go:nosplit
func (call *Call) verdict(asked, limited bool) uint32 {
	switch {
	case !asked || call.Operation == gcra.Peek:
		return Peeked
	case call.Operation == gcra.Charge:
		return Charged
	case call.Operation == gcra.Refund:
		return Refunded
	case limited && (call.Operation != gcra.Take || call.Parts[0].Taken == 0):
		return Limited
	}
	return Allowed
}

//go:nosplit
func (call *Call) replyInSeconds(decision *gcra.Decision) {
	call.Seconds[0] = number(decision.Limited)
	call.Seconds[1] = decision.Limit
	call.Seconds[2] = decision.Remaining
	call.Seconds[3] = gcra.Seconds(decision.RetryAfter())
	call.Seconds[4] = gcra.Seconds(decision.ResetAfter)
}

//go:nosplit
func (call *Call) replyInRows(parts []gcra.Item, limited bool, wait int64) {
	call.Limited = number(limited)
	longest := &call.Rows[0]
	for i := 0; i < MostFunnels && i < len(parts); i++ {
		row, decision := &call.Rows[i], &parts[i].Decision
		row.Limited = number(decision.Limited)
		row.Limit = decision.Limit
		row.Remaining = decision.Remaining
		row.Wait.setSeconds(decision.Wait)
		if decision.Wait == wait {
			longest = row
		}
		if row.ResetAfter = row.Wait; decision.ResetAfter != decision.Wait { // a token that is all of the capacity
			row.ResetAfter.setSeconds(decision.ResetAfter)
		}
		row.HasReceipt = number(call.Funnels[i].Write == WriteTAT && call.Operation != gcra.Refund)
	}
	call.Wait = longest.Wait
	call.Taken = call.Parts[0].Taken
}

// name makes errors name the funnel with this index, if there are several.
//
//go:nosplit
func (call *Call) name(index uint) {
	number := uint32(index) + 1
	if call.Length == 1 {
		number = 0
	}
	call.Outcome.Funnel = number
}

//go:nosplit
func number(isTrue bool) int64 {
	if isTrue {
		return 1
	}
	return 0
}
