package command

import "runtime"

// Mistakes that a change to this package might make, each in its own function.
//
//go:nosplit
func breaches(call *Call) {
	panics(int(call.Now))
	allocates(call)
	grows(call)
	generic[struct {
		A int " // "
		B string
	}](call)
	callsValue(call)
	readsForeignVariable(call)
	readsInitialized(call)
	jumpsBetweenInstructions()
	entersKernel()
	clears()
	takesAddress()
	readsThroughPointer()
	fallsOffItsEnd()
	usesUnknown()
	readsNowhere()
}

//go:noinline
//go:nosplit
func panics(at int) { sink = table[at] }

var (
	table     [4]byte
	sink      byte
	pointer   *Call
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
		large[i] = call.Rows[0].Words[1][0] + byte(i)
	}
	sink = large[call.Now&4095]
}

// generic is instantiated over a type whose name has all that lines are split at.
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
func usesUnknown()
func readsNowhere()
