#include "go_runtime.h"

#include <pthread.h>
#include <signal.h>

#include "_cgo_export.h"

void (*go_answer)(struct throttle_call *call);

/* As the server had them before the Go runtime started. */
static struct sigaction handlers[NSIG];
static sigset_t mask;

/* 101 is the first priority that is free for programs; the constructor that
 * starts the Go runtime has none and so comes later. */
__attribute__((constructor(101))) static void prepare(void)
{
    sigset_t all;
    sigfillset(&all);
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, NULL, &handlers[signal]);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
}

void go_runtime_start(void)
{
    if (go_answer != NULL) return;
    stack_t signal_stack;
    sigaltstack(NULL, &signal_stack);

    /* The runtime starts on a thread of its own; this call waits until it is done. */
    go_answer = (void (*)(struct throttle_call *))funnelStart();

    sigaltstack(&signal_stack, NULL);
    /* The C library keeps two signals to itself and refuses to set them. */
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &handlers[signal], NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
