//go:build funneldebug

#include "debug.h"

#include <strings.h>

#include "clock.h"

int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    size_t length;
    if (argc == 3 && strcasecmp(redis.StringPtrLen(argv[1], &length), "CLOCK") == 0) {
        long long instant = -1;
        int is_real = strcasecmp(redis.StringPtrLen(argv[2], &length), "real") == 0;
        if (is_real || redis.StringToLongLong(argv[2], &instant) == REDISMODULE_OK) {
            clock_override = instant;
            return redis.ReplyWithLongLong(ctx, clock_nanoseconds());
        }
    }
    return redis.ReplyWithError(ctx, "ERR FUNNEL.DEBUG knows CLOCK nanoseconds and CLOCK real");
}
