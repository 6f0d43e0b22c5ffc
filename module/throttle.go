package module

// #include "call.h"
import "C"

import (
	"math"

	"funnel/gcra"
)

// What a key can hold, as call.h numbers it.
const (
	storedNothing   = C.STORED_NOTHING
	storedString    = C.STORED_STRING
	storedOtherType = C.STORED_OTHER_TYPE
)

// A request is one call of CL.THROTTLE, its arguments still as the client sent
// them. The strings are views of the server's memory.
type request struct {
	capacity, count, period, quantity string

	stored      uint32 // one of the constants above
	storedValue string // of a string

	now          int64 // nanoseconds since the epoch
	limitSurplus int64 // limit minus capacity: 1 in redis-cell mode, else 0
}

// throttle answers a request: with a decision and the quantity that was asked
// for, or with a refusal. The arguments are judged before the key, as commands
// of the server do.
func throttle(request *request) (gcra.Decision, int64, refusal) {
	capacity, ok := parseInteger(request.capacity)
	switch {
	case request.limitSurplus == 0 && (!ok || capacity < 1):
		return refused(badCapacity, request.capacity)
	case !ok:
		return refused(badCapacityRedisCell, request.capacity)
	}
	count, ok := parseInteger(request.count)
	if !ok || count < 1 {
		return refused(badCount, request.count)
	}
	period, ok := parseSeconds(request.period)
	if !ok || period < 1 {
		return refused(badPeriod, request.period)
	}
	quantity, ok := parseInteger(request.quantity)
	if !ok {
		return refused(badQuantity, request.quantity)
	}

	if capacity > math.MaxInt64-request.limitSurplus {
		return tooLarge(gcra.ErrTolerance)
	}
	rate, err := gcra.NewRate(capacity+request.limitSurplus, count, period)
	if err != nil {
		return tooLarge(err)
	}

	tat := gcra.Empty
	switch request.stored {
	case storedString:
		if tat, ok = parseInteger(request.storedValue); !ok {
			return refused(noFunnel, "")
		}
	case storedOtherType:
		return refused(wrongType, "")
	}

	decision, err := rate.Decide(tat, request.now, quantity)
	if err != nil {
		return tooLarge(err)
	}
	return decision, quantity, refusal{}
}

func refused(reason, value string) (gcra.Decision, int64, refusal) {
	return gcra.Decision{}, 0, refusal{reason: reason, value: value}
}

func tooLarge(err error) (gcra.Decision, int64, refusal) {
	return gcra.Decision{}, 0, refusal{reason: err.Error(), showArguments: true}
}
