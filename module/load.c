#include <string.h>
#include <strings.h>

#include "abi.h"
#include "command_info.h"
#include "debug.h"
#include "disconnect.h"
#include "go_runtime.h"
#include "throttle.h"
#include "version.h"

#define PUBLIC __attribute__((visibility("default")))

/* Commands are registered from this table. */
static const struct {
    const char *name;
    RedisModuleCmdFunc function;
    const char *flags;
} commands[] = {
    {"cl.throttle", throttle_command, "write deny-oom fast"},
#ifdef FUNNEL_DEBUG
    {"funnel.debug", debug_command, "admin"},
#endif
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* How the second argument reads: the value is the surplus of limit over it. */
static const char *compat_names[] = {"none", "redis-cell"};
static const int compat_surplus[] = {0, 1};
enum { COMPAT_COUNT = sizeof compat_surplus / sizeof compat_surplus[0] };

static int get_compat(const char *name, void *data)
{
    (void)name, (void)data;
    return throttle_limit_surplus;
}

static int set_compat(const char *name, int value, void *data, RedisModuleString **error)
{
    (void)name, (void)data, (void)error;
    throttle_limit_surplus = value;
    return REDISMODULE_OK;
}

/* Reads "compat none|redis-cell", or nothing. Returns REDISMODULE_ERR, with a
 * line in the log, on anything else: a limiter that ignores a word it does not
 * know would limit otherwise than its owner thinks. */
static int read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    throttle_limit_surplus = 0;
    for (int i = 0; i < argc; i += 2) {
        size_t length;
        const char *name = redis.StringPtrLen(argv[i], &length);
        if (strcasecmp(name, "compat") != 0) {
            redis.Log(ctx, "warning", "unknown load argument '%s': funnel knows 'compat none' and 'compat redis-cell'",
                      name);
            return REDISMODULE_ERR;
        }
        const char *value = i + 1 < argc ? redis.StringPtrLen(argv[i + 1], &length) : "nothing";
        int known = 0;
        for (int c = 0; c < COMPAT_COUNT; c++) {
            if (strcasecmp(value, compat_names[c]) != 0) continue;
            throttle_limit_surplus = compat_surplus[c];
            known = 1;
        }
        if (!known) {
            redis.Log(ctx, "warning", "load argument 'compat' must be 'none' or 'redis-cell', not '%s'", value);
            return REDISMODULE_ERR;
        }
    }
    return REDISMODULE_OK;
}

/* Makes the mode visible as `CONFIG GET funnel.compat`, and settable in the
 * configuration file, where the server has settings for modules. The load
 * argument is its default. It cannot change at run time: clients that learned
 * one reading would go on with it. */
static int register_config(RedisModuleCtx *ctx)
{
    if (redis.RegisterEnumConfig == NULL || redis.LoadConfigs == NULL) return REDISMODULE_OK;
    if (redis.RegisterEnumConfig(ctx, "compat", throttle_limit_surplus, REDISMODULE_CONFIG_IMMUTABLE, compat_names,
                                 compat_surplus, COMPAT_COUNT, get_compat, set_compat, NULL, NULL) != REDISMODULE_OK)
        return REDISMODULE_ERR;
    return redis.LoadConfigs(ctx);
}

static int register_commands(RedisModuleCtx *ctx)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (redis.CreateCommand(ctx, commands[i].name, commands[i].function, commands[i].flags, 1, 1, 1) !=
            REDISMODULE_OK) {
            redis.Log(ctx, "warning", "cannot register %s: does another loaded module have that command?",
                      commands[i].name);
            return REDISMODULE_ERR;
        }
    }
    describe_command(ctx, "cl.throttle");
    return REDISMODULE_OK;
}

/* What INFO shows in its section `funnel`. */
static void add_info(RedisModuleInfoCtx *info, int for_crash_report)
{
    (void)for_crash_report;
    redis.InfoAddSection(info, "");
    redis.InfoAddFieldCString(info, "version", FUNNEL_VERSION);
    redis.InfoAddFieldCString(info, "commit", FUNNEL_COMMIT);
    redis.InfoAddFieldCString(info, "compat", compat_names[throttle_limit_surplus]);
    redis.InfoAddFieldULongLong(info, "calls_allowed", throttle_counters.allowed);
    redis.InfoAddFieldULongLong(info, "calls_limited", throttle_counters.limited);
    redis.InfoAddFieldULongLong(info, "calls_looked", throttle_counters.looked);
    redis.InfoAddFieldULongLong(info, "calls_refused", throttle_counters.refused);
}

/* Called by the server on MODULE LOAD or loadmodule. */
PUBLIC int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    go_runtime_start();

    const char *missing = find_functions(ctx);
    if (redis.SetModuleAttribs == NULL || redis.IsModuleNameBusy == NULL) return REDISMODULE_ERR;
    if (redis.IsModuleNameBusy("funnel")) return REDISMODULE_ERR;
    redis.SetModuleAttribs(ctx, "funnel", FUNNEL_VERSION_NUMBER, REDISMODULE_APIVER_1);
    if (missing != NULL) {
        if (redis.Log != NULL)
            redis.Log(ctx, "warning", "this server lacks RedisModule_%s: funnel needs Redis 6.2.2 or Valkey", missing);
        return REDISMODULE_ERR;
    }
    redis.SetModuleOptions(ctx, REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED |
                                    REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD);

    if (read_load_arguments(ctx, argv, argc) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (register_commands(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (register_config(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    redis.RegisterInfoFunc(ctx, add_info);

    memset(&throttle_counters, 0, sizeof throttle_counters);
    throttle_start();
    redis.Log(ctx, "notice", "funnel %s (%s) loaded, compat %s", FUNNEL_VERSION, FUNNEL_COMMIT,
              compat_names[throttle_limit_surplus]);
    return REDISMODULE_OK;
}

static int is_ours(const char *name, size_t length)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, name, length) == 0) return 1;
    return 0;
}

/* Called by the server on MODULE UNLOAD. The library itself stays in the
 * process, since a Go runtime cannot be unmapped; loading it again calls
 * RedisModule_OnLoad again, on the same variables. */
PUBLIC int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
    disconnect_holders(ctx, is_ours);
    throttle_stop();
    return REDISMODULE_OK;
}
