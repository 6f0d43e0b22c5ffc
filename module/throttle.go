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

	refusal refusal // set by throttle when there is no decision
}

// throttle answers a request with a decision and the quantity that was asked for,
// or else, when ok is false, with the request's refusal. The arguments are judged
// before the key, as commands of the server do.
//
// The refusal is not among the results so that those fit into registers.
func throttle(request *request) (decision gcra.Decision, quantity int64, ok bool) {
	capacity, ok := parseInteger(request.capacity)
	switch {
	case request.limitSurplus == 0 && (!ok || capacity < 1):
		return request.refuse(badCapacity, request.capacity)
	case !ok:
		return request.refuse(badCapacityRedisCell, request.capacity)
	}
	count, ok := parseInteger(request.count)
	if !ok || count < 1 {
		return request.refuse(badCount, request.count)
	}
	period, ok := parseSeconds(request.period)
	if !ok || period < 1 {
		return request.refuse(badPeriod, request.period)
	}
	if quantity, ok = parseInteger(request.quantity); !ok {
		return request.refuse(badQuantity, request.quantity)
	}

	if capacity > math.MaxInt64-request.limitSurplus {
		return request.refuseTooLarge(gcra.ErrTolerance)
	}
	rate, err := gcra.NewRate(capacity+request.limitSurplus, count, period)
	if err != nil {
		return request.refuseTooLarge(err)
	}

	tat := gcra.Empty
	switch request.stored {
	case storedString:
		if tat, ok = parseInteger(request.storedValue); !ok {
			return request.refuse(noFunnel, "")
		}
	case storedOtherType:
		return request.refuse(wrongType, "")
	}

	if decision, err = rate.Decide(tat, request.now, quantity); err != nil {
		return request.refuseTooLarge(err)
	}
	return decision, quantity, true
}

func (request *request) refuse(reason, value string) (gcra.Decision, int64, bool) {
	request.refusal = refusal{reason: reason, value: value}
	return gcra.Decision{}, 0, false
}

func (request *request) refuseTooLarge(err error) (gcra.Decision, int64, bool) {
	request.refusal = refusal{reason: err.Error(), showArguments: true}
	return gcra.Decision{}, 0, false
}
