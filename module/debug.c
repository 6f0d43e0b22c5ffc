//go:build funneldebug

#include "debug.h"

#include <signal.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "_cgo_export.h"
#include "clock.h"

/* What CLOCK has set; -1 for the real clock. */
static int64_t clock_override = -1;

int64_t clock_nanoseconds(void)
{
    if (clock_override >= 0) return clock_override;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Entered the usual way, Go runs on a goroutine's stack, on which the server's
 * signal handlers have no room: between these two, they wait. */
static sigset_t hold_signals(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static void release_signals(sigset_t before)
{
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int64_t metric(int which)
{
    sigset_t before = hold_signals();
    int64_t value = funnelDebugMetric(which);
    release_signals(before);
    return value;
}

static int64_t signal_stack_size(void)
{
    stack_t stack;
    sigaltstack(NULL, &stack);
    return stack.ss_flags & SS_DISABLE ? 0 : (int64_t)stack.ss_size;
}

int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    size_t length;
    const char *what = argc > 1 ? redis.StringPtrLen(argv[1], &length) : "";

    if (strcasecmp(what, "CLOCK") == 0 && argc == 3) {
        const char *instant = redis.StringPtrLen(argv[2], &length);
        clock_override = strcasecmp(instant, "real") == 0 ? -1 : strtoll(instant, NULL, 10);
        return redis.ReplyWithLongLong(ctx, clock_nanoseconds());
    }
    if (strcasecmp(what, "COLLECT") == 0) {
        sigset_t before = hold_signals();
        funnelDebugCollect();
        release_signals(before);
        return redis.ReplyWithLongLong(ctx, 1);
    }
    if (strcasecmp(what, "ALLOCATIONS") == 0) return redis.ReplyWithLongLong(ctx, metric(0));
    if (strcasecmp(what, "COLLECTIONS") == 0) return redis.ReplyWithLongLong(ctx, metric(1));
    if (strcasecmp(what, "SIGNALSTACK") == 0) return redis.ReplyWithLongLong(ctx, signal_stack_size());
    return redis.ReplyWithError(ctx, "ERR FUNNEL.DEBUG knows CLOCK, COLLECT, ALLOCATIONS, COLLECTIONS and SIGNALSTACK");
}
