#ifndef FUNNEL_GO_RUNTIME_H
#define FUNNEL_GO_RUNTIME_H

#include "call.h"

/* The Go runtime is a guest in the server's process. It starts when the library is
 * loaded, is entered once, and sleeps from then on.
 *
 * The command does not need it: go_answer leads into Go code that asks nothing of
 * the runtime, and runs like a function of C (see package throttle). To enter Go
 * the usual way for each call, through an exported function, costs seven hundred
 * instructions; wakes two of Go's threads, when calls come one by one; and makes
 * handlers of the server's signals run on a goroutine's few kilobytes of stack, if
 * they come at the wrong time.
 *
 * What a guest rearranges, it puts back. When a Go library is loaded, its runtime
 * takes over the handlers of crashes (SIGSEGV, SIGBUS, SIGFPE), adds SA_ONSTACK to
 * those that it leaves alone, starts threads that any signal to the process may be
 * delivered to, and gives the thread that enters Go a signal stack, on which a crash
 * report of the server would not fit. So:
 *
 *   - Go gives its threads the signal mask in force when its runtime starts. A
 *     constructor that runs just before blocks all signals.
 *   - go_runtime_start puts the handlers, the signal stack and the signal mask of the
 *     loading thread back.
 *
 * After that, a signal does what it would do if Go were not there. */

/* To be called first thing on load, on the thread that executes commands. When
 * called again it does nothing. */
void go_runtime_start(void);

/* Answers a call: fills the lower half of the structure. Set by go_runtime_start.
 * Keeps nothing of the call, and touches nothing but the call. */
extern void (*go_answer)(struct throttle_call *call);

#endif
