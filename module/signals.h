#ifndef FUNNEL_SIGNALS_H
#define FUNNEL_SIGNALS_H

/* Keeps the server's signals off the threads of the Go runtime.
 *
 * Go starts threads of its own when the library is loaded. A signal sent to the
 * process, such as SIGTERM, may be delivered to any thread that does not block
 * it, and then the server's handler would run there, on the few kilobytes of a
 * goroutine's stack, because servers install their handlers without SA_ONSTACK.
 *
 * Go gives all its threads the signal mask that was in force when its runtime
 * started. So signals.c blocks signals just before that, in a constructor that
 * runs ahead of Go's, and signals_restore puts the mask of the loading thread
 * back. It is called first thing on load, and does nothing when called again. */
void signals_restore(void);

#endif
