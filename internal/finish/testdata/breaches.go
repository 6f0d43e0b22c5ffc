package answer

import "runtime"

// Mistakes that a change to this package might make, each in its own function.
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
	readsThroughPointer()
	fallsOffItsEnd()
	usesNewerProcessor()
	usesUnknown()
	actsAsKernel()
	changesState()
	pushesAndReturns()
	losesItsStack()
	takesTwoWays()
}

//go:noinline
//go:nosplit
func panics(at int) { sink = table[at] }

var (
	table     [4]byte
	sink      byte
	pointer   *Call
	method    interface{ Error() string }
	value     func()
	anyNumber int
)

//go:noinline
//go:nosplit
func allocates(call *Call) { pointer = &Call{Now: call.Now} }

//go:noinline
func grows(call *Call) {
	var large [4096]byte
	for i := range large {
		large[i] = call.Funnels[0].Capacity[0] + byte(i)
	}
	sink = large[call.Now&4095]
}

//go:noinline
//go:nosplit
func comparesStrings(call *Call) {
	if call.Funnels[0].Capacity == call.Funnels[0].Count {
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
		anyNumber *= 3
	case 1:
		anyNumber += 5
	case 2:
		anyNumber -= 7
	case 3:
		anyNumber ^= 9
	case 4:
		anyNumber *= 11
	case 5:
		anyNumber += 13
	case 6:
		anyNumber -= 15
	case 7:
		anyNumber ^= 17
	case 8:
		anyNumber *= 19
	case 9:
		anyNumber += 21
	}
}

//go:noinline
//go:nosplit
func readsForeignVariable(*Call) { anyNumber = runtime.MemProfileRate }

// initialized is computed before main would run.
var initialized = compute()

//go:noinline
func compute() int { return runtime.NumCPU() }

//go:noinline
//go:nosplit
func readsInitialized(*Call) { anyNumber = initialized }

// In assembler.
func jumpsBetweenInstructions()
func entersKernel()
func clears()
func takesAddress()

var foreign = &runtime.MemProfileRate

//go:noinline
//go:nosplit
func readsThroughPointer() { anyNumber = *foreign }

func fallsOffItsEnd()
func usesNewerProcessor()
func usesUnknown()
func actsAsKernel()
func changesState()
func pushesAndReturns()
func losesItsStack()
func takesTwoWays()
