// Package bench measures what CL.THROTTLE costs, and what the other ways to limit
// a rate with a Redis or Valkey server cost beside it.
//
// # The idea
//
// A figure means something only next to another that was taken in the same run.
// So every way is brought into one form, an [Operation]: the words that go over
// the wire for one call, and how its replies say allowed or limited. One load
// generator then drives all of them, and checks every reply, since a benchmark of
// calls that were answered otherwise than intended measures nothing.
//
// Three things are measured, from the most repeatable to the least:
//
//   - instructions per call ([MeasureInstructions]): the server runs under
//     callgrind, which counts what it executes. The count hardly depends on the
//     machine or on who else uses it, and so it is what the regression guard
//     watches. It says nothing of caches, or of what the kernel does.
//   - memory per key ([MeasureMemory]), as the server accounts for it.
//   - wall clock ([MeasureWallClock]): throughput, latency and the processor time
//     of the server, in many short rounds that take the alternatives in turn, so
//     that a machine that becomes slower meanwhile is slower for all of them.
//
// [MeasureTail] times the slowest calls, [MeasureFootprint] compares memory and threads
// with and without the module, [MeasureScale] looks for costs that grow with keys or clients.
//
// # Why the load is not sent with go-redis
//
// It spends several times the server's own time on a command, which would hide
// the differences that are to be measured: the load goes over bare connections,
// from buffers that are patched and sent again (connection.go, call.go). All that
// is not timed goes through go-redis.
package bench
