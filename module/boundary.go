package module

// #include "call.h"
import "C"

import (
	"runtime"

	"funnel/module/throttle"
)

// funnelStart waits, as any call into Go does, until the Go runtime has started,
// and returns the way into Go that leaves the runtime asleep: a
// void (*)(struct throttle_call *).
//
// One processor, in Go's sense, is enough for a runtime with nothing to do; more
// would be more threads, on a machine with many cores. To set the number also ends
// the runtime's habit of reading the CPU limit of its control group from time to
// time.
//
//export funnelStart
func funnelStart() C.uintptr_t {
	runtime.GOMAXPROCS(1)
	return C.uintptr_t(throttle.Entry())
}
