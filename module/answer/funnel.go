package answer

import (
	"math"

	"funnel/gcra"
	decided "funnel/internal/call"
)

// parseFunnel validates the words of a funnel and makes the request to gcra. Otherwise it
// writes an error, and returns false.
//
//go:nosplit
func (call *Call) parseFunnel(funnel *Funnel, row *decided.Row) (ok bool) {
	funnel.Kind, row.Kind = FunnelKind, decided.Funnel
	request := &row.Funnel.Request
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
	case call.Operation == decided.Take:
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
func (funnel *Funnel) readStored(row *decided.Row) (ok bool) {
	switch {
	case funnel.Kind == SlotsKind:
		row.Slots.State = funnel.Slots.State
		return funnel.Stored != StoredOtherType
	case funnel.Stored == StoredNothing:
		row.Funnel.TAT = gcra.Empty
		return true
	}
	row.Funnel.TAT, ok = parseInteger(funnel.StoredValue)
	return ok && funnel.Stored == StoredOfKind
}

// write has the key written with a TAT, or deleted if that has passed; of slots, with the end of
// the holder's.
//
//go:nosplit
func (funnel *Funnel) write(row *decided.Row, now int64) {
	tat := row.Funnel.Decision.TAT
	if funnel.Kind == SlotsKind {
		tat = row.Slots.Decision.End
	}
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
