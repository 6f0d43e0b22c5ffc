package throttle

import "runtime"

// What a change to this package might bring by mistake, each in a function of its own.
//
//go:nosplit
func breaches(call *Call) {
	panics(int(call.Now))
	allocates(call)
	grows(call)
	comparesStrings(call)
	writesPointers(call)
	generic[struct {
		A int
		B string
	}](call)
	callsValue(call)
	callsMethod(call)
	jumpsByTable(call)
	readsForeignVariable(call)
	readsInitialized(call)
	jumpsBetweenInstructions()
	entersKernel()
	clears()
	takesAddress()
}

//go:noinline
//go:nosplit
func panics(at int) { sink = table[at] }

var (
	table   [4]byte
	sink    byte
	pointer *Call
	method  interface{ Error() string }
	value   func()
	number  int
)

//go:noinline
//go:nosplit
func allocates(call *Call) { pointer = &Call{Now: call.Now} }

//go:noinline
func grows(call *Call) {
	var large [4096]byte
	for i := range large {
		large[i] = call.Capacity[0] + byte(i)
	}
	sink = large[call.Now&4095]
}

//go:noinline
//go:nosplit
func comparesStrings(call *Call) {
	if call.Capacity == call.Count {
		sink = 1
	}
}

//go:noinline
//go:nosplit
func writesPointers(call *Call) { pointer = call }

// generic is instantiated over a type whose name has spaces, a comma and braces.
//
//go:noinline
func generic[T any](call *Call) {
	var zero [1]T
	holder = zero[call.Now]
}

var holder any

//go:noinline
//go:nosplit
func callsValue(*Call) { value() }

//go:noinline
//go:nosplit
func callsMethod(*Call) { method.Error() }

//go:noinline
//go:nosplit
func jumpsByTable(call *Call) {
	switch call.Now {
	case 0:
		number *= 3
	case 1:
		number += 5
	case 2:
		number -= 7
	case 3:
		number ^= 9
	case 4:
		number *= 11
	case 5:
		number += 13
	case 6:
		number -= 15
	case 7:
		number ^= 17
	case 8:
		number *= 19
	case 9:
		number += 21
	}
}

//go:noinline
//go:nosplit
func readsForeignVariable(*Call) { number = runtime.MemProfileRate }

// initialized is computed before main would run.
var initialized = compute()

//go:noinline
func compute() int { return runtime.NumCPU() }

//go:noinline
//go:nosplit
func readsInitialized(*Call) { number = initialized }

// In assembler.
func jumpsBetweenInstructions()
func entersKernel()
func clears()
func takesAddress()
