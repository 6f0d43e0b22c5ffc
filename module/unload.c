#include "unload.h"

#include "throttle.h"

static int loop_has_turned, shutting_down;

static void on_turn(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)ctx, (void)event, (void)subevent, (void)data;
    loop_has_turned = 1;
    /* A shutdown may fail, and the loop goes on. */
    shutting_down = 0;
}

static void on_shutdown(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)ctx, (void)event, (void)subevent, (void)data;
    shutting_down = 1;
}

void unload_start(RedisModuleCtx *ctx)
{
    loop_has_turned = shutting_down = 0;
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_CRON_LOOP, 1}, on_turn);
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_SHUTDOWN, 1}, on_shutdown);
}

int unload_is_refused(RedisModuleCtx *ctx)
{
    /* The event comes with the server's timer, up to a second after the first turn. */
    int refused = (loop_has_turned || throttle_was_called()) && !shutting_down;
    if (refused)
        redis.Log(ctx, "warning",
                  "MODULE UNLOAD is refused: servers free the commands of a module while clients still point at them, "
                  "and crash. To upgrade, put the new file in place on the replicas, restart them, and fail over");
    return refused;
}
