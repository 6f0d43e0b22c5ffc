#include "signals.h"

#include <pthread.h>
#include <signal.h>

static sigset_t mask_of_server;
static int blocked;

/* 101 is the first priority that is free for programs; the entry of the Go
 * runtime has none and so comes later. */
__attribute__((constructor(101))) static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    blocked = pthread_sigmask(SIG_SETMASK, &all, &mask_of_server) == 0;
}

void signals_restore(void)
{
    if (!blocked) return;
    pthread_sigmask(SIG_SETMASK, &mask_of_server, NULL);
    blocked = 0;
}
