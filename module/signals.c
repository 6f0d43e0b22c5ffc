#include "signals.h"

#include <pthread.h>
#include <signal.h>

#include "_cgo_export.h"

/* As the server had them before the Go runtime started. */
static struct sigaction handlers[NSIG];
static sigset_t mask;
static int saved;

/* 101 is the first priority that is free for programs; the constructor that
 * starts the Go runtime has none and so comes later. */
__attribute__((constructor(101))) static void save(void)
{
    sigset_t all;
    sigfillset(&all);
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, NULL, &handlers[signal]);
    saved = pthread_sigmask(SIG_SETMASK, &all, &mask) == 0;
}

void signals_restore(void)
{
    if (!saved) return;
    /* The runtime starts on a thread of its own; this call waits until it is done. */
    funnelStart();
    /* The C library keeps two signals to itself and refuses to set them. */
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &handlers[signal], NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    saved = 0;
}
