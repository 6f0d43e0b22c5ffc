//go:build funneldebug

package module

// #cgo CFLAGS: -DFUNNEL_DEBUG
// #include "call.h"
import "C"

import (
	"runtime"
	"runtime/metrics"
)

// funnelDebugCollect runs a garbage collection, after which the runtime's
// counters are exact.
//
//export funnelDebugCollect
func funnelDebugCollect() { runtime.GC() }

// funnelDebugMetric reads one of the counters of package runtime/metrics:
// objects allocated on the Go heap since start, or collections that the runtime
// started by itself.
//
//export funnelDebugMetric
func funnelDebugMetric(which C.int) C.int64_t {
	names := [...]string{"/gc/heap/allocs:objects", "/gc/cycles/automatic:gc-cycles"}
	sample := []metrics.Sample{{Name: names[which]}}
	metrics.Read(sample)
	return C.int64_t(sample[0].Value.Uint64())
}
