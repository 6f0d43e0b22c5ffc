#define _GNU_SOURCE /* memfd_create */

#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Returns whether this thread has a signal stack now on which a server's crash
 * report fits: Redis tests memory there with a buffer of 1 MB. It tests, by
 * overwriting, all memory that belongs to no file and is not called a stack, so
 * this stack belongs to a file in memory that is. A signal stack that is there
 * already is somebody else's, of unknown size, and stays. */
static int provide_signal_stack(void)
{
    const size_t size = 4 << 20;
    stack_t stack;
    if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return 0;
    int file = memfd_create("funnel signal stack", MFD_CLOEXEC);
    if (file < 0) return 0;
    stack = (stack_t){.ss_size = size, .ss_sp = MAP_FAILED};
    if (ftruncate(file, size) == 0) stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    close(file);
    return stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0;
}

static int is_function(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

void signals_restore(void)
{
    if (!saved) return;
    int has_stack = provide_signal_stack();
    /* The runtime starts on a thread of its own; this call waits until it is done. */
    funnelStart();
    /* The C library keeps two signals to itself and refuses to set them. */
    for (int signal = 1; signal < NSIG; signal++) {
        if (has_stack && is_function(&handlers[signal])) handlers[signal].sa_flags |= SA_ONSTACK;
        sigaction(signal, &handlers[signal], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    saved = 0;
}
