package throttle

import (
	"math"

	"funnel/gcra"
)

// parse validates the arguments, before the key is read, as commands of the server do.
// C calls it as go_parse.
//
//go:nosplit
func parse(call *Call) {
	capacity, ok := parseInteger(call.Capacity)
	switch {
	case call.LimitSurplus == 0 && (!ok || capacity < 1):
		call.failArgument(badCapacity, call.Capacity)
		return
	case !ok:
		call.failArgument(badCapacityRedisCell, call.Capacity)
		return
	}
	count, ok := parseInteger(call.Count)
	if !ok || count < 1 {
		call.failArgument(badCount, call.Count)
		return
	}
	period, ok := parseSeconds(call.Period)
	if !ok || period < 1 {
		call.failArgument(badPeriod, call.Period)
		return
	}
	tokens, ok := parseInteger(call.Quantity)
	if !ok {
		call.failArgument(badQuantity, call.Quantity)
		return
	}

	if capacity > math.MaxInt64-call.LimitSurplus {
		call.failTogether(gcra.ErrTolerance)
		return
	}
	rate, err := gcra.NewRate(capacity+call.LimitSurplus, count, period)
	if err != nil {
		call.failTogether(err)
		return
	}
	if _, err := rate.Increment(tokens); err != nil {
		call.failTogether(err)
		return
	}
	call.Rate, call.Tokens = rate, tokens
	call.Verdict = Parsed
}

// decide answers a call that parse has accepted, from what the key holds and the
// time. C calls it as go_decide.
//
//go:nosplit
func decide(call *Call) {
	tat := gcra.Empty
	switch call.Stored {
	case StoredString:
		value, ok := parseInteger(call.StoredValue)
		if !ok {
			call.fail(noFunnel)
			return
		}
		tat = value
	case StoredOtherType:
		call.fail(wrongType)
		return
	}

	decision, err := call.Rate.Decide(tat, call.Now, call.Tokens)
	if err != nil {
		call.failTogether(err)
		return
	}
	call.accept(&decision)
}

// accept answers with a decision.
//
//go:nosplit
func (call *Call) accept(decision *gcra.Decision) {
	call.Reply[0] = 0
	if decision.Limited {
		call.Reply[0] = 1
	}
	call.Reply[1] = decision.Limit
	call.Reply[2] = decision.Remaining
	call.Reply[3] = gcra.Seconds(decision.RetryAfter)
	call.Reply[4] = gcra.Seconds(decision.ResetAfter)
	switch {
	case call.Tokens == 0:
		call.Verdict = Peeked
	case decision.Limited:
		call.Verdict = Limited
	default:
		call.Verdict = Allowed
		call.ExpiryMilliseconds = gcra.Milliseconds(decision.TAT)
		call.TAT.set(decision.TAT)
		call.Expiry.set(call.ExpiryMilliseconds)
	}
}
