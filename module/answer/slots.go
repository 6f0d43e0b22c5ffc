package answer

import (
	decided "funnel/internal/call"
	"funnel/slots"
)

const (
	leastTTL      = 1_000_000 // nanoseconds
	longestHolder = 255       // bytes
)

// isSlotsWord reports whether the third word of a row makes it one of slots, in any case.
//
//go:nosplit
func isSlotsWord(word string) bool {
	const slots = "slots"
	if len(word) != len(slots) {
		return false
	}
	for i := 0; i < len(slots); i++ {
		if word[i]|0x20 != slots[i] { // in lower case, if it is a letter
			return false
		}
	}
	return true
}

// parseSlots validates the words of slots and makes the request to gcra. Otherwise it writes an
// error, and returns false.
//
//go:nosplit
func (call *Call) parseSlots(funnel *Funnel, row *decided.Row) (ok bool) {
	limit, ok := parseInteger(funnel.Capacity)
	if !ok {
		return call.failArgument(badLimit, funnel.Capacity)
	}
	ttl, ok := parseSeconds(funnel.Period)
	if !ok || ttl < leastTTL {
		return call.failArgument(badTTL, funnel.Period)
	}
	if holder := funnel.Quantity; holder == "" || len(holder) > longestHolder {
		return call.failArgument(badHolder, holder)
	}
	funnel.Kind, funnel.Slots.Limit = SlotsKind, limit
	row.Kind = decided.Slots
	row.Slots.Request, _ = slots.NewRequest(limit, ttl)
	return true
}

// hasSlots reports whether a row of the call is one of slots.
//
//go:nosplit
func (call *Call) hasSlots() bool {
	for i := range min(call.Length, MostFunnels) {
		if call.Funnels[i].Kind == SlotsKind {
			return true
		}
	}
	return false
}
