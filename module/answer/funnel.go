package answer

import (
	"math"

	"funnel/gcra"
)

// parseFunnel validates the words of a funnel and makes the request to gcra. Otherwise it
// writes an error, and returns false.
//
//go:nosplit
func (call *Call) parseFunnel(funnel *Funnel, request *gcra.Request) (ok bool) {
	capacity, ok := parseInteger(funnel.Capacity)
	if !ok || capacity == 0 && call.LimitSurplus == 0 {
		return call.failCapacity(funnel.Capacity, ok)
	}
	count, ok := parseInteger(funnel.Count)
	if !ok || count < 1 {
		return call.failArgument(badCount, funnel.Count)
	}
	period, ok := parseSeconds(funnel.Period)
	if !ok || period < 1 {
		return call.failArgument(badPeriod, funnel.Period)
	}
	quantity, ok := parseInteger(funnel.Quantity)
	if !ok {
		return call.failArgument(badQuantity, funnel.Quantity)
	}

	most := math.MaxInt64 - call.LimitSurplus
	rate, err := gcra.NewRate(min(capacity, most)+call.LimitSurplus, count, period)
	switch {
	case err != nil:
	case capacity > most:
		err = gcra.ErrTolerance
	case call.Operation == gcra.Take:
		*request, err = rate.RequestUpTo(quantity)
	default:
		*request, err = rate.Request(quantity)
	}
	if err != nil {
		return call.failCombination(err, funnel)
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
	*tat, ok = parseInteger(funnel.StoredValue)
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
