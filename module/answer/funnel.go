package answer

import (
	"math"

	"funnel/gcra"
)

// parse validates the words of a funnel of the call and makes the request to gcra. Otherwise
// it writes an error, and returns false.
//
//go:nosplit
func (funnel *Funnel) parse(call *Call, request *gcra.Request) (ok bool) {
	limitSurplus, outcome := call.LimitSurplus, &call.Outcome
	capacity, ok := parseInteger(funnel.Capacity)
	if !ok || capacity == 0 && limitSurplus == 0 {
		return outcome.failCapacity(funnel.Capacity, limitSurplus, ok)
	}
	count, ok := parseInteger(funnel.Count)
	if !ok || count < 1 {
		return outcome.failArgument(badCount, funnel.Count)
	}
	period, ok := parseSeconds(funnel.Period)
	if !ok || period < 1 {
		return outcome.failArgument(badPeriod, funnel.Period)
	}
	if outcome.Wording == OfGCRA {
		if !call.readsTokens() {
			return outcome.fail(badSyntax)
		}
		if !funnel.countsTokens() {
			return outcome.failArgument(badTokens, funnel.Quantity)
		}
	}
	quantity, ok := parseInteger(funnel.Quantity)
	if !ok {
		return outcome.failArgument(badQuantity, funnel.Quantity)
	}

	most := math.MaxInt64 - limitSurplus
	rate, err := gcra.NewRate(min(capacity, most)+limitSurplus, count, period)
	if err == nil && capacity > most {
		err = gcra.ErrTolerance
	}
	if err != nil {
		return outcome.failTogether(err, funnel)
	}
	if call.Operation == gcra.Take {
		*request, err = rate.RequestUpTo(quantity)
	} else {
		*request, err = rate.Request(quantity)
	}
	if err != nil {
		return outcome.failTogether(err, funnel)
	}
	return true
}

// readStored takes the TAT from the stored value, and returns false if the key does not
// hold a funnel.
//
//go:nosplit
func (funnel *Funnel) readStored(tat *int64) (ok bool) {
	if funnel.Stored == StoredNothing {
		*tat = gcra.Empty
		return true
	}
	*tat, ok = parseTAT(funnel.StoredValue)
	return ok && funnel.Stored == StoredString
}

// write has the key written with a TAT, or deleted where that has passed.
//
//go:nosplit
func (funnel *Funnel) write(tat, now int64) {
	if tat <= now {
		funnel.Write = WriteDeletion
		return
	}
	funnel.Write = WriteTAT
	funnel.ExpiryMilliseconds = gcra.Milliseconds(tat)
	funnel.TAT.setInteger(tat)
	funnel.Expiry.setInteger(funnel.ExpiryMilliseconds)
}
