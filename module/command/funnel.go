package command

import (
	"math"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/errortext"
)

// The words of a funnel after its key.
const (
	capacityWord = iota + 1
	countWord
	periodWord
	quantityWord
)

// parseFunnel makes the request of a funnel: key, capacity, count, period and quantity.
//
//go:nosplit
func (c *Call) parseFunnel(row *Row, funnel *gcra.Funnel) (ok bool) {
	words := &row.Words
	capacity, ok := parseInteger(words[capacityWord])
	if !ok || capacity == 0 && c.LimitSurplus == 0 {
		return c.failCapacity(words[capacityWord], ok)
	}
	count, ok := parseInteger(words[countWord])
	if !ok || count < 1 {
		return c.failArgument(errortext.Count, words[countWord])
	}
	period, ok := parseSeconds(words[periodWord])
	if !ok || period < 1 {
		return c.failArgument(errortext.Period, words[periodWord])
	}
	quantity, ok := parseInteger(words[quantityWord])
	if !ok {
		return c.failArgument(errortext.Quantity, words[quantityWord])
	}

	maxCapacity := math.MaxInt64 - c.LimitSurplus
	rate, err := gcra.NewRate(min(capacity, maxCapacity)+c.LimitSurplus, count, period)
	switch {
	case err != nil:
	case capacity > maxCapacity:
		err = gcra.ErrTolerance
	case c.Operation == call.Take:
		funnel.Request, err = rate.RequestUpTo(quantity)
	default:
		funnel.Request, err = rate.Request(quantity)
	}
	if err != nil {
		c.failFunnel(err, row)
		return false
	}
	return true
}

//go:nosplit
func (row *Row) readFunnel(funnel *gcra.Funnel) (ok bool) {
	if row.Stored == StoredNothing {
		funnel.TAT = gcra.Empty
		return true
	}
	funnel.TAT, ok = parseInteger(row.String.Stored)
	return ok && row.Stored == StoredOfKind
}

// writeFunnel writes the TAT, and removes the key of a funnel that is empty.
//
//go:nosplit
func (row *Row) writeFunnel(funnel *gcra.Funnel, now int64) {
	tat := funnel.NewTAT
	if tat <= now {
		row.Write = WriteRemoval
		return
	}
	row.Write = WriteState
	row.String.Value.setInteger(tat)
	row.String.ExpiryMilliseconds = gcra.Milliseconds(tat)
	row.String.Expiry.setInteger(row.String.ExpiryMilliseconds)
}

// replyFunnel shows the new TAT as a receipt if the call took tokens.
//
//go:nosplit
func (row *Row) replyFunnel(operation call.Operation) {
	row.Funnel.HasReceipt = number(row.Write == WriteState && operation != call.Refund)
}

// failCapacity answers with an error reply for a capacity that is 0 or, if isNumber is false, not a
// number.
//
//go:nosplit
func (c *Call) failCapacity(capacity string, isNumber bool) bool {
	switch {
	case isNumber && c.Form == InSeconds:
		return c.fail(errortext.ZeroCapacity)
	case c.LimitSurplus == 0:
		return c.failArgument(errortext.Capacity, capacity)
	}
	return c.failArgument(errortext.CapacityRedisCell, capacity)
}

//go:nosplit
func (c *Call) failFunnel(err error, row *Row) {
	reason, _ := err.(gcra.Error)
	c.fail(string(reason))
	c.add(": got capacity ")
	c.add(row.Words[capacityWord])
	c.add(", count ")
	c.add(row.Words[countWord])
	c.add(", period ")
	c.add(row.Words[periodWord])
	c.add(", quantity ")
	c.add(row.Words[quantityWord])
}
