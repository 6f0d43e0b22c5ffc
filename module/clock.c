#include "clock.h"

#include <strings.h>
#include <time.h>

#ifdef FUNNEL_DEBUG
/* The time that FUNNEL.DEBUG has set, or -1 for the machine's. */
static long long clock_override = -1;

int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    size_t length;
    if (argc == 3 && strcasecmp(redis.StringPtrLen(argv[1], &length), "CLOCK") == 0 &&
        redis.StringToLongLong(argv[2], &clock_override) == REDISMODULE_OK)
        return redis.ReplyWithLongLong(ctx, clock_nanoseconds());
    return redis.ReplyWithError(ctx, "ERR FUNNEL.DEBUG knows CLOCK nanoseconds");
}
#endif

int64_t clock_nanoseconds(void)
{
#ifdef FUNNEL_DEBUG
    if (clock_override >= 0) return clock_override;
#endif
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
