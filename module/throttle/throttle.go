package throttle

import (
	"math"

	"funnel/gcra"
)

// answer fills the lower half of a call. The arguments are judged before the key,
// as commands of the server do. It is what [Entry] leads to.
//
//go:nosplit
func answer(call *Call) {
	capacity, ok := parseInteger(call.Capacity)
	switch {
	case call.LimitSurplus == 0 && (!ok || capacity < 1):
		call.refuseArgument(badCapacity, call.Capacity)
		return
	case !ok:
		call.refuseArgument(badCapacityRedisCell, call.Capacity)
		return
	}
	count, ok := parseInteger(call.Count)
	if !ok || count < 1 {
		call.refuseArgument(badCount, call.Count)
		return
	}
	period, ok := parseSeconds(call.Period)
	if !ok || period < 1 {
		call.refuseArgument(badPeriod, call.Period)
		return
	}
	quantity, ok := parseInteger(call.Quantity)
	if !ok {
		call.refuseArgument(badQuantity, call.Quantity)
		return
	}

	if capacity > math.MaxInt64-call.LimitSurplus {
		call.refuseTogether(gcra.ErrTolerance)
		return
	}
	rate, err := gcra.NewRate(capacity+call.LimitSurplus, count, period)
	if err != nil {
		call.refuseTogether(err)
		return
	}

	tat := gcra.Empty
	switch call.Stored {
	case StoredString:
		if tat, ok = parseInteger(call.StoredValue); !ok {
			call.refuse(noFunnel)
			return
		}
	case StoredOtherType:
		call.refuse(wrongType)
		return
	}

	decision, err := rate.Decide(tat, call.Now, quantity)
	if err != nil {
		call.refuseTogether(err)
		return
	}
	call.accept(&decision, quantity)
}

// accept answers with a decision.
//
//go:nosplit
func (call *Call) accept(decision *gcra.Decision, quantity int64) {
	call.Reply = [ReplyLength]int64{
		0,
		decision.Limit,
		decision.Remaining,
		gcra.Seconds(decision.RetryAfter),
		gcra.Seconds(decision.ResetAfter),
	}
	switch {
	case decision.Limited:
		call.Reply[0] = 1
		call.Verdict = Limited
	case quantity == 0:
		call.Verdict = Looked
	default:
		call.Verdict = Allowed
		call.ExpiryMilliseconds = gcra.Milliseconds(decision.TAT)
		call.TAT.set(decision.TAT)
		call.Expiry.set(call.ExpiryMilliseconds)
	}
}
