package answer

import (
	"unsafe"

	"funnel/gcra"
	decided "funnel/internal/call"
)

// parse validates the arguments of a call before its keys are read, as the server's own
// commands do. C calls it as go_parse.
//
//go:nosplit
func parse(call *Call) {
	call.Writes = 0
	length := min(call.Length, MostFunnels)
	for i := range length {
		call.setErrorFunnel(uint(i))
		funnel, row, ok := &call.Funnels[i], &call.Items[i], false
		if call.Form == InRows && isSlotsWord(funnel.Count) && call.Operation != decided.Take {
			ok = call.parseSlots(funnel, row)
		} else {
			ok = call.parseFunnel(funnel, row)
		}
		if !ok {
			return
		}
	}
	call.ErrorFunnel = 0
	if !call.parseLastWord() || length > 1 && call.namesAKeyTwice() {
		return
	}
	call.Verdict = Parsed
}

// parseLastWord validates the word behind the rows, which may be left out: max_wait, or for
// CL.REFUND tat. Otherwise it writes an error, and returns false. A max wait of 0 changes nothing, so
// it may stand behind any rows.
//
//go:nosplit
func (call *Call) parseLastWord() (ok bool) {
	call.MaxWait, call.Receipt = 0, gcra.NoReceipt
	isLeftOut := unsafe.StringData(call.LastWord) == nil
	if isLeftOut {
		return true
	}
	wrong, withSlots, withSeveral := badMaxWait, badMaxWaitOfSlots, badMaxWaitOfSeveral
	if call.Operation == decided.Refund {
		wrong, withSlots, withSeveral = badReceipt, badReceiptOfSlots, badReceiptOfSeveral
		call.Receipt, ok = parseInteger(call.LastWord)
	} else {
		call.MaxWait, ok = parseSeconds(call.LastWord)
	}
	switch {
	case !ok:
		return call.failArgument(wrong, call.LastWord)
	case call.MaxWait == 0 && call.Operation != decided.Refund:
	case call.hasSlots():
		return call.failArgument(withSlots, call.LastWord)
	case call.Length > 1:
		return call.failArgument(withSeveral, call.LastWord)
	}
	return true
}

// decide answers a call that parse has accepted, from the stored values and the time. C
// calls it as go_decide.
//
//go:nosplit
func decide(call *Call) {
	items := call.Items[:min(call.Length, MostFunnels)]
	for i := range items {
		if !call.Funnels[i].readStored(&items[i]) {
			call.failStored(uint(i))
			return
		}
	}
	failed, err := call.Operation.Apply(items, call.Now, call.MaxWait, call.Receipt)
	if err != nil && failed >= 0 && failed < MostFunnels {
		call.setErrorFunnel(uint(failed))
		call.failCombination(err, &call.Funnels[failed])
		return
	}
	for i := range items {
		call.Funnels[i].Write = WriteNothing
		if items[i].Changes() {
			call.Funnels[i].write(&items[i], max(call.Now, 0))
			call.Writes++
		}
	}
	sum := decided.Summarize(items)
	call.Verdict = call.verdict(sum.Asks, sum.Limited)
	if call.Form == InSeconds {
		call.replyInSeconds(&call.Items[0].Funnel.Decision)
	} else {
		call.replyInRows(items, sum.Limited, sum.Wait)
	}
}

// verdict is what INFO counts a call as.
//
//go:nosplit
func (call *Call) verdict(asked, limited bool) uint32 {
	switch {
	case !asked || call.Operation == decided.Peek:
		return Peeked
	case call.Operation == decided.Charge:
		return Charged
	case call.Operation == decided.Refund:
		return Refunded
	case limited && (call.Operation != decided.Take || call.Items[0].Funnel.Taken == 0):
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
func (call *Call) replyInRows(items []decided.Row, limited bool, wait int64) {
	call.Limited = number(limited)
	longest := &call.Rows[0]
	for i := 0; i < MostFunnels && i < len(items); i++ {
		row, decision := &call.Rows[i], &items[i].Decision
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
		funnel := &call.Funnels[i]
		row.HasReceipt = number(funnel.Write == WriteTAT && call.Operation != decided.Refund)
		if funnel.Kind == SlotsKind {
			funnel.TAT.setSeconds(items[i].Slots.Decision.Held)
			row.HasReceipt = 1
		}
	}
	call.Wait = longest.Wait
	call.Taken = call.Items[0].Funnel.Taken
}

// setErrorFunnel makes errors name the funnel with this index, if there are several.
//
//go:nosplit
func (call *Call) setErrorFunnel(index uint) {
	call.ErrorFunnel = 0
	if call.Length > 1 {
		call.ErrorFunnel = uint32(index) + 1
	}
}

//go:nosplit
func number(isTrue bool) int64 {
	if isTrue {
		return 1
	}
	return 0
}
