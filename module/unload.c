#include "unload.h"

static int refused;

static void on_first_turn(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)ctx, (void)event, (void)subevent, (void)data;
    refused = 1;
}

/* A shutdown may fail; the next turn of the loop refuses again. */
static void on_shutdown(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)ctx, (void)event, (void)subevent, (void)data;
    refused = 0;
}

void unload_start(RedisModuleCtx *ctx)
{
    refused = 0;
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_CRON_LOOP, 1}, on_first_turn);
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_SHUTDOWN, 1}, on_shutdown);
}

int unload_is_refused(RedisModuleCtx *ctx)
{
    if (refused)
        redis.Log(ctx, "warning",
                  "MODULE UNLOAD is refused: servers free the commands of a module while clients still point at them, "
                  "and crash. To upgrade, put the new file in place on the replicas, restart them, and fail over");
    return refused;
}
