// Package throttle is the command CL.THROTTLE as Go sees it: a [Call] with the
// arguments and the stored value comes in, and is answered with a decision of
// package gcra or with an error in words.
//
// # A function for C
//
// Go that is exported to C by cgo is entered through Go's scheduler: the thread that
// calls is given a goroutine, which has a stack of its own, and a processor in Go's
// sense, and gives them back afterwards. That costs seven hundred instructions, about
// as many as the decision itself. And when calls come one by one, the scheduler's own
// threads go to sleep in between and are woken up by each.
//
// The answer to a call needs none of it: no memory from Go's heap, little stack, and
// not the time in which anybody could want to interrupt it. So [Entry] is a function
// of C: a few lines of assembler that keep the registers which C wants kept, and call
// answer on the caller's own stack. The Go runtime does not learn of it.
//
// # What that asks of the code
//
// Whatever the answer reaches, here and in package gcra, must not call the runtime:
//
//   - It must not grow the stack. With the mark go:nosplit, which functions have here,
//     the compiler adds no check for room, and the linker refuses a program in which
//     such functions might need more than 800 bytes together.
//   - It must not panic. A panic is a call of the runtime, which the compiler puts
//     wherever it cannot prove that an index is within bounds or a divisor is not 0.
//     Here, it can. That is more than recovering from panics could give: there is no
//     instruction in the command that could raise one.
//   - It must not allocate, nor store a pointer where the garbage collector would
//     have to be told.
//
// TestTheAnswerNeedsNoGoRuntime reads the machine code of funnel.so, and fails if it
// finds a call that leads anywhere else.
package throttle
