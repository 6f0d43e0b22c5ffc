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
	funnel.Kind = FunnelKind
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

// readStored takes the state from the stored value, and returns false if the key holds
// something else.
//
//go:nosplit
func (funnel *Funnel) readStored(item *gcra.Item) (ok bool) {
	switch {
	case funnel.Kind == SlotsKind:
		item.TAT, item.Running = funnel.Slots.Own, funnel.Slots.Running
		item.First, item.Last = funnel.Slots.First, funnel.Slots.Last
		return funnel.Stored != StoredOtherType
	case funnel.Stored == StoredNothing:
		item.TAT = gcra.Empty
		return true
	}
	item.TAT, ok = parseInteger(funnel.StoredValue)
	return ok && funnel.Stored == StoredOfKind
}

// write has the key written with a TAT, or deleted if that has passed; of slots, with the end of
// the holder's.
//
//go:nosplit
func (funnel *Funnel) write(tat, now int64) {
	funnel.Write = WriteTAT
	switch {
	case tat == 0, funnel.Kind == FunnelKind && tat <= now:
		funnel.Write = WriteDeletion
		return
	case funnel.Kind == SlotsKind:
		funnel.ExpiryMilliseconds = tat
	default:
		funnel.ExpiryMilliseconds = gcra.Milliseconds(tat)
		funnel.TAT.setInteger(tat)
	}
	funnel.Expiry.setInteger(funnel.ExpiryMilliseconds)
}
