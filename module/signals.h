#ifndef FUNNEL_SIGNALS_H
#define FUNNEL_SIGNALS_H

/* Keeps the Go runtime out of the server's signal handling.
 *
 * When a Go library is loaded, its runtime takes over the handlers of crashes
 * (SIGSEGV, SIGBUS, SIGFPE), adds SA_ONSTACK to those that it leaves alone, and
 * starts threads that any signal to the process may be delivered to. Each of the
 * three harms a server, whose handlers expect the ample stack of one of its own
 * threads: its crash report would run out of the 32 KB of Go's signal stack, and
 * its SIGTERM handler could find itself on a goroutine's few kilobytes.
 *
 * funnel needs none of it. Its Go code runs for microseconds, so that nobody has
 * to interrupt it, and a panic is raised and recovered without signals. So this
 * file puts everything back as if Go were not there:
 *
 *   - Go gives its threads the signal mask in force when its runtime starts. A
 *     constructor that runs just before blocks all signals.
 *   - signals_restore puts the mask of the loading thread back, and all handlers
 *     that were there before.
 *
 * One thing is left. A signal may arrive on the server's own thread while that is
 * inside Go, on a goroutine's stack of a few kilobytes. So the thread is given a
 * signal stack that has room for a crash report, and the server's handlers are made
 * to run on it. The stack is a mapping of 4 MB, of which the kernel provides what
 * is used: normally nothing. It is the process's from then on, as is all of this
 * library. Handlers that the server installs later, such as that of its software
 * watchdog, find 64 KB on Go's stack: see package stackroom.
 *
 * What this costs: a nil pointer followed inside Go is no panic that can be
 * recovered, but a crash of the server, as it would be in C.
 *
 * To be called first thing on load, on the thread that executes commands. When
 * called again it does nothing. */
void signals_restore(void);

#endif
