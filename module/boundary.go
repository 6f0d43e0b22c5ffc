package module

// #include "call.h"
import "C"

import (
	"runtime"
	"strconv"
	"unsafe"

	"funnel/gcra"
	"funnel/module/stackroom"
)

// funnelStart waits, as any call into Go does, until the Go runtime has started,
// and makes it a modest guest. Two processors, in Go's sense, are one for the
// server's thread and one for the runtime's own chores, so that neither waits for
// the other; more would only be more threads, on a machine with many cores. To
// set the number also ends the runtime's habit of reading the CPU limit of its
// control group from time to time.
//
//export funnelStart
func funnelStart() {
	runtime.GOMAXPROCS(2)
	stackroom.Ensure() // for the way into the first call, before that can do so itself
}

// funnelThrottle is the one crossing from C into Go: it reads the upper half of
// the call and fills the lower half.
//
//export funnelThrottle
func funnelThrottle(call *C.struct_throttle_call) {
	stackroom.Ensure() // a signal of the server may arrive while this runs
	defer refuseOnPanic(call)
	if debugging {
		debugPanic()
	}

	request := request{
		capacity:     view(&call.capacity),
		count:        view(&call.count),
		period:       view(&call.period),
		quantity:     "1",
		stored:       call.stored,
		storedValue:  view(&call.stored_value),
		now:          int64(call.now),
		limitSurplus: int64(call.limit_surplus),
	}
	if call.quantity.bytes != nil {
		request.quantity = view(&call.quantity)
	}

	decision, quantity, ok := throttle(&request)
	if !ok {
		refuse(call, &request)
		return
	}

	call.reply = [C.REPLY_LENGTH]C.int64_t{
		0,
		C.int64_t(decision.Limit),
		C.int64_t(decision.Remaining),
		C.int64_t(gcra.Seconds(decision.RetryAfter)),
		C.int64_t(gcra.Seconds(decision.ResetAfter)),
	}
	switch {
	case decision.Limited:
		call.reply[0] = 1
		call.verdict = C.VERDICT_LIMITED
	case quantity == 0:
		call.verdict = C.VERDICT_LOOKED
	default:
		call.verdict = C.VERDICT_ALLOWED
		writeInstants(call, decision.TAT)
	}
}

// view sees bytes of the server as a string, without a copy: struct text is laid
// out as Go lays out a string. It must not outlive the crossing.
func view(text *C.struct_text) string {
	return *(*string)(unsafe.Pointer(text))
}

// writeInstants sets the words of the replicated SET: the TAT, and the expiry,
// which is the TAT rounded up to the next millisecond.
func writeInstants(call *C.struct_throttle_call, tat int64) {
	call.expiry_milliseconds = C.int64_t(gcra.Milliseconds(tat))
	write(&call.tat, tat)
	write(&call.expiry, int64(call.expiry_milliseconds))
}

// write sets digits to a number that is not negative.
func write(digits *C.struct_digits, number int64) {
	space := unsafe.Slice((*byte)(unsafe.Pointer(&digits.bytes)), C.DIGITS_CAPACITY)
	digits.length = C.size_t(len(strconv.AppendInt(space[:0], number, 10)))
}

// refuse makes the call an error reply, in the words of the request's refusal.
func refuse(call *C.struct_throttle_call, request *request) {
	space := unsafe.Slice((*byte)(unsafe.Pointer(&call.message)), C.MESSAGE_CAPACITY)
	message := request.refusal.appendTo(space[:0:C.MESSAGE_CAPACITY-1], request)
	space[len(message)] = 0
	call.verdict = C.VERDICT_REFUSED
}

// refuseOnPanic keeps a mistake of ours from taking the server down: a panic
// that reached C would end the process. Nothing has been written at that point.
func refuseOnPanic(call *C.struct_throttle_call) {
	if cause := recover(); cause != nil {
		refuse(call, &request{refusal: refusalOfPanic(cause)})
	}
}
