package throttle

import (
	"math"

	"funnel/gcra"
)

// parse validates the words of a funnel and fills in what gcra is to be asked. Otherwise
// it writes an error, and returns false.
//
//go:nosplit
func (funnel *Funnel) parse(limitSurplus int64, ask *gcra.Ask, outcome *Outcome) (ok bool) {
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
	quantity, ok := parseInteger(funnel.Quantity)
	if !ok {
		return outcome.failArgument(badQuantity, funnel.Quantity)
	}

	if capacity > math.MaxInt64-limitSurplus {
		return outcome.failTogether(gcra.ErrTolerance, funnel)
	}
	rate, err := gcra.NewRate(capacity+limitSurplus, count, period)
	if err != nil {
		return outcome.failTogether(err, funnel)
	}
	if _, err := rate.Increment(quantity); err != nil {
		return outcome.failTogether(err, funnel)
	}
	ask.Rate, ask.Quantity = rate, quantity
	return true
}

// readStored takes the TAT out of what the key holds. Otherwise it writes an error, and
// returns false.
//
//go:nosplit
func (funnel *Funnel) readStored(ask *gcra.Ask, outcome *Outcome) (ok bool) {
	switch funnel.Stored {
	case StoredNothing:
		ask.TAT = gcra.Empty
	case StoredString:
		tat, ok := parseTAT(funnel.StoredValue)
		if !ok {
			return outcome.fail(noFunnel)
		}
		ask.TAT = tat
	default:
		return outcome.failWrongType()
	}
	return true
}

// writeTAT has the key written with a TAT.
//
//go:nosplit
func (funnel *Funnel) writeTAT(tat int64) {
	funnel.Write = WriteTAT
	funnel.ExpiryMilliseconds = gcra.Milliseconds(tat)
	funnel.TAT.setInteger(tat)
	funnel.Expiry.setInteger(funnel.ExpiryMilliseconds)
}
