package command

import (
	"unsafe"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/internal/errortext"
)

// Parse validates the arguments of a call before its keys are read, as the server's own commands
// do. C calls it as go_parse.
//
//go:noinline
//go:nosplit
func Parse(c *Call) {
	c.Writes = 0
	length := min(c.Length, MaxRows)
	for i := range length {
		c.setErrorRow(uint(i))
		if !c.parseRow(&c.Rows[i], &c.Decided[i]) {
			return
		}
	}
	c.ErrorRow = 0
	if !c.parseLastWord() || length > 1 && c.hasDuplicateKeys() {
		return
	}
	c.Verdict = Parsed
}

// parseLastWord validates the word after the rows, which may be left out: tat for CL.REFUND, and
// max_wait for CL.RESERVE. If the word is wrong, it writes an error, and returns false. A max wait
// of 0 changes nothing, so it may follow any rows.
//
//go:nosplit
func (c *Call) parseLastWord() (ok bool) {
	c.MaxWait, c.Receipt = 0, gcra.NoReceipt
	isLeftOut := unsafe.StringData(c.LastWord) == nil
	if isLeftOut {
		return true
	}
	wrong, withSlots := errortext.MaxWait, errortext.MaxWaitWithSlots
	withUntil, withSeveral := errortext.MaxWaitWithUntil, errortext.MaxWaitWithSeveral
	if c.Operation == call.Refund {
		wrong, withSlots = errortext.Receipt, errortext.ReceiptWithSlots
		withUntil, withSeveral = errortext.ReceiptWithUntil, errortext.ReceiptWithSeveral
		c.Receipt, ok = parseInteger(c.LastWord)
	} else {
		c.MaxWait, ok = parseSeconds(c.LastWord)
	}
	switch {
	case !ok:
		return c.failArgument(wrong, c.LastWord)
	case c.MaxWait == 0 && c.Operation != call.Refund:
	case c.has(call.Slots):
		return c.failArgument(withSlots, c.LastWord)
	case c.has(call.Quota):
		return c.failArgument(withUntil, c.LastWord)
	case c.Length > 1:
		return c.failArgument(withSeveral, c.LastWord)
	}
	return true
}

// Decide answers a call that Parse has accepted, from the stored values and the time. C calls it as
// go_decide.
//
//go:noinline
//go:nosplit
func Decide(c *Call) {
	decided := c.Decided[:min(c.Length, MaxRows)]
	ended := c.Operation.FirstEnded(decided, c.Now)
	if ended >= 0 {
		c.failEnded(uint(ended))
		return
	}
	for i := range decided {
		row := &c.Rows[i]
		if !row.read(&decided[i], c.Now) {
			c.failStored(uint(i))
			return
		}
	}
	failed, err := c.Operation.Apply(decided, c.Now, c.MaxWait, c.Receipt)
	// The build refuses an index that may be out of range: docs/go-runtime.md.
	if err != nil && failed >= 0 && failed < MaxRows {
		c.setErrorRow(uint(failed))
		c.failRow(err, &c.Rows[failed])
		return
	}
	for i := range decided {
		row := &c.Rows[i]
		row.Write = WriteNothing
		if decided[i].Changes() {
			row.write(&decided[i], max(c.Now, 0))
			c.Writes++
		}
	}
	sum := call.Summarize(decided)
	c.Verdict = c.verdict(sum)
	if c.Form == InSeconds {
		c.replyInSeconds(&c.Decided[0].Funnel.Decision)
	} else {
		c.replyInRows(decided, sum)
	}
}

// verdict returns the verdict under which INFO counts the call.
//
//go:nosplit
func (c *Call) verdict(sum call.Summary) uint32 {
	switch {
	case !sum.Asks || c.Operation == call.Peek:
		return Peeked
	case c.Operation == call.Charge:
		return Charged
	case c.Operation == call.Refund:
		return Refunded
	case sum.Limited && (c.Operation != call.Take || c.Decided[0].Taken() == 0):
		return Limited
	}
	return Allowed
}

//go:nosplit
func (c *Call) replyInSeconds(d *decision.Decision) {
	c.Seconds[0] = number(d.Limited)
	c.Seconds[1] = d.Limit
	c.Seconds[2] = d.Remaining
	c.Seconds[3] = gcra.Seconds(d.RetryAfter())
	c.Seconds[4] = gcra.Seconds(d.ResetAfter)
}

//go:nosplit
func (c *Call) replyInRows(decided []call.Row, sum call.Summary) {
	c.Limited = number(sum.Limited)
	longest := &c.Replies[0]
	for i := 0; i < MaxRows && i < len(decided); i++ {
		reply, decision := &c.Replies[i], decided[i].Decision()
		reply.Limited = number(decision.Limited)
		reply.Limit = decision.Limit
		reply.Remaining = decision.Remaining
		reply.Wait.setSeconds(decision.Wait)
		if decision.Wait == sum.Wait {
			longest = reply
		}
		// The two times are the same if the capacity is one token.
		reply.ResetAfter = reply.Wait
		if decision.ResetAfter != decision.Wait {
			reply.ResetAfter.setSeconds(decision.ResetAfter)
		}
		c.Rows[i].reply(c.Operation, &decided[i])
	}
	c.Wait = longest.Wait
	c.Taken = c.Decided[0].Taken()
}

// setErrorRow makes errors name the row with this index if the call has several rows.
//
//go:nosplit
func (c *Call) setErrorRow(index uint) {
	c.ErrorRow = 0
	if c.Length > 1 {
		c.ErrorRow = uint32(index) + 1
	}
}

//go:nosplit
func number(isTrue bool) int64 {
	if isTrue {
		return 1
	}
	return 0
}
