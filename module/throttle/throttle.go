package throttle

import "funnel/gcra"

// parse validates the arguments of CL.THROTTLE, before the key is read, as commands of
// the server do. C calls it as go_parse.
//
//go:nosplit
func parse(call *Call) {
	call.Outcome.Funnel = 0
	if call.Funnel.parse(call.LimitSurplus, &call.Ask, &call.Outcome) {
		call.Outcome.Verdict = Parsed
	}
}

// decide answers a call that parse has accepted, from what the key holds and the
// time. C calls it as go_decide.
//
//go:nosplit
func decide(call *Call) {
	call.Funnel.Write = WriteNothing
	if !call.Funnel.readStored(&call.Ask, &call.Outcome) {
		return
	}
	if err := call.Ask.Reserve(call.Now, 0); err != nil {
		call.Outcome.failTogether(err, &call.Funnel)
		return
	}
	call.accept(&call.Ask.Decision)
}

// accept answers with a decision.
//
//go:nosplit
func (call *Call) accept(decision *gcra.Decision) {
	call.Reply[0] = number(decision.Limited)
	call.Reply[1] = decision.Limit
	call.Reply[2] = decision.Remaining
	call.Reply[3] = gcra.Seconds(decision.RetryAfter())
	call.Reply[4] = gcra.Seconds(decision.ResetAfter)
	switch {
	case call.Ask.Quantity == 0:
		call.Outcome.Verdict = Peeked
	case decision.Limited:
		call.Outcome.Verdict = Limited
	default:
		call.Outcome.Verdict = Allowed
		call.Funnel.writeTAT(decision.TAT)
	}
}
