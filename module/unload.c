#include "unload.h"

static int loop_has_turned, shutting_down;

/* How many commands the server had executed when it loaded the module. The one that
 * loads it is not among them before it ends. */
static unsigned long long executed_at_load;

static unsigned long long commands_executed(RedisModuleCtx *ctx)
{
    RedisModuleServerInfoData *info = redis.GetServerInfo(ctx, "stats");
    unsigned long long number = redis.ServerInfoGetFieldUnsigned(info, "total_commands_processed", NULL);
    redis.FreeServerInfo(ctx, info);
    return number;
}

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
    executed_at_load = commands_executed(ctx);
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_CRON_LOOP, 1}, on_turn);
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_SHUTDOWN, 1}, on_shutdown);
}

int unload_is_refused(RedisModuleCtx *ctx)
{
    if (shutting_down) return 0;
    /* The event of a turn comes with the server's timer, up to a second late. */
    if (!loop_has_turned && commands_executed(ctx) == executed_at_load) return 0;
    redis.Log(ctx, "warning",
              "MODULE UNLOAD is refused: servers free the commands of a module while clients still point at them, "
              "and crash. To upgrade, put the new file in place on the replicas, restart them, and fail over");
    return 1;
}
