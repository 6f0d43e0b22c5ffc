// Package stackroom keeps room on a goroutine's stack for signal handlers of C.
//
// A handler that was installed without SA_ONSTACK runs on the stack of whatever
// it interrupts. Threads of C have megabytes there; a goroutine that a thread of
// C has called into has 4 KB to begin with, and the frame that the kernel pushes
// for the handler alone can take most of it. What is overwritten then is memory
// of other goroutines.
//
// Go grows a stack when a function that needs more is entered. So to enter a
// function with a large frame, and to leave it at once, makes sure of that much
// room below the caller, for a dozen instructions when it is there already.
package stackroom

// Bytes is how much room there is after a call of [Ensure]: enough for a handler
// that prints a stack trace, several times over.
const Bytes = 64 << 10

// Ensure grows the stack of this goroutine until there are [Bytes] of room. The
// room stays while the goroutine does not wait and no collection shrinks its
// stack, so it is to be called at the start of each callback from C.
func Ensure()
