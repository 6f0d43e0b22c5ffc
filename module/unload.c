#include "unload.h"

/* Whether a client may point at the commands of this module. */
static int commands_known;
static int shutting_down;

/* The filter that sees the first command, or NULL once it is unregistered. The server owns it. */
static RedisModuleCommandFilter *first_command;

/* Called before the server looks a command up, even if it then rejects the command. */
static void on_command(RedisModuleCommandFilterCtx *command)
{
    (void)command;
    commands_known = 1;
}

/* Called by the server's periodic work, which does not begin while the server loads data.
 * From then on the filter is not needed: without it, commands cost nothing more. */
static void on_cron(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)event, (void)subevent, (void)data;
    if (first_command != NULL) redis.UnregisterCommandFilter(ctx, first_command);
    first_command = NULL;
    commands_known = 1;
}

static void on_shutdown(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data)
{
    (void)ctx, (void)event, (void)subevent, (void)data;
    shutting_down = 1;
}

void unload_start(RedisModuleCtx *ctx)
{
    shutting_down = 0;
    first_command = redis.RegisterCommandFilter(ctx, on_command, 0);
    commands_known = first_command == NULL;
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_CRON_LOOP, 1}, on_cron);
    redis.SubscribeToServerEvent(ctx, (RedisModuleEvent){REDISMODULE_EVENT_SHUTDOWN, 1}, on_shutdown);
}

int unload_is_refused(RedisModuleCtx *ctx)
{
    if (shutting_down || !commands_known) return 0;
    redis.Log(ctx, "warning",
              "MODULE UNLOAD is refused: servers free the commands of a module while clients still point at them, "
              "and crash. To upgrade, replace the file on the replicas, restart them, and fail over");
    return 1;
}
