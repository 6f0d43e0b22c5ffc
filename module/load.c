#include <string.h>
#include <strings.h>

#include "abi.h"
#include "call.h"
#include "command_info.h"
#include "debug.h"
#include "throttle.h"
#include "unload.h"
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

/* The surplus that the load arguments have set, or NOT_SET. */
static int compat_argument;
enum { NOT_SET = -1 };

/* The surplus of a compat mode by its name, or NOT_SET. */
static int find_compat(const char *name)
{
    for (int c = 0; c < COMPAT_COUNT; c++)
        if (strcasecmp(name, compat_names[c]) == 0) return compat_surplus[c];
    return NOT_SET;
}

static int get_compat(const char *name, void *data)
{
    (void)name, (void)data;
    return throttle_limit_surplus;
}

/* Called by the server with what its configuration says, or else with the default.
 * The server owns the error. */
static int set_compat(const char *name, int value, void *data, RedisModuleString **error)
{
    (void)name, (void)data;
    if (compat_argument != NOT_SET && value != compat_argument) {
        static const char reason[] = "it contradicts the load argument 'compat': remove one of the two";
        *error = redis.CreateString(NULL, reason, sizeof reason - 1);
        return REDISMODULE_ERR;
    }
    throttle_limit_surplus = value;
    return REDISMODULE_OK;
}

/* Reads "compat none|redis-cell", or nothing. Returns REDISMODULE_ERR, with a
 * line in the log, on anything else. An ignored argument would silently change
 * limits. */
static int read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    compat_argument = NOT_SET;
    for (int i = 0; i < argc; i += 2) {
        size_t length;
        const char *name = redis.StringPtrLen(argv[i], &length);
        if (strcasecmp(name, "compat") != 0) {
            redis.Log(ctx, "warning", "unknown load argument '%s': funnel knows 'compat none' and 'compat redis-cell'",
                      name);
            return REDISMODULE_ERR;
        }
        if (i + 1 == argc) {
            redis.Log(ctx, "warning", "load argument 'compat' needs a value: 'none' or 'redis-cell'");
            return REDISMODULE_ERR;
        }
        const char *value = redis.StringPtrLen(argv[i + 1], &length);
        int surplus = find_compat(value);
        if (surplus == NOT_SET) {
            redis.Log(ctx, "warning", "load argument 'compat' must be 'none' or 'redis-cell', not '%s'", value);
            return REDISMODULE_ERR;
        }
        if (compat_argument != NOT_SET && compat_argument != surplus) {
            redis.Log(ctx, "warning", "load argument 'compat' is given twice, as 'none' and as 'redis-cell'");
            return REDISMODULE_ERR;
        }
        compat_argument = surplus;
    }
    throttle_limit_surplus = compat_argument == NOT_SET ? 0 : compat_argument;
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
                                 compat_surplus, COMPAT_COUNT, get_compat, set_compat, NULL, NULL) != REDISMODULE_OK) {
        redis.Log(ctx, "warning", "the server does not accept the setting funnel.compat");
        return REDISMODULE_ERR;
    }
    return redis.LoadConfigs(ctx); /* the server logs what it does not accept */
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
    redis.InfoAddFieldULongLong(info, "allowed", throttle_counters.allowed);
    redis.InfoAddFieldULongLong(info, "limited", throttle_counters.limited);
    redis.InfoAddFieldULongLong(info, "peeked", throttle_counters.peeked);
    redis.InfoAddFieldULongLong(info, "errors", throttle_counters.errors);
}

/* An option that a server does not know may mean something else to it one day. */
static int module_options(void)
{
    int options = REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    if (redis.GetModuleOptionsAll != NULL)
        options |= redis.GetModuleOptionsAll() & VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION;
    return options;
}

/* Called by the server on MODULE LOAD or loadmodule. The library may have been loaded
 * before, and unloaded, yet still be in the process, as with musl: what is kept in
 * static variables is set anew. */
PUBLIC int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    const char *missing = find_functions(ctx);
    if (redis.SetModuleAttribs == NULL || redis.IsModuleNameBusy == NULL || redis.Log == NULL) return REDISMODULE_ERR;
    /* Before anything else is set: the library at work may be this very one. */
    if (redis.IsModuleNameBusy("funnel")) {
        redis.Log(ctx, "warning", "funnel is not loaded: a module of that name is loaded already");
        return REDISMODULE_ERR;
    }
    redis.SetModuleAttribs(ctx, "funnel", FUNNEL_VERSION_NUMBER, REDISMODULE_APIVER_1);
    if (missing != NULL) {
        redis.Log(ctx, "warning", "this server lacks RedisModule_%s: funnel needs Redis 6.2.8 or newer, or Valkey",
                  missing);
        return REDISMODULE_ERR;
    }
    const char *fault = prove_go();
    if (fault != NULL) {
        redis.Log(ctx, "warning", "funnel is not loaded: %s", fault);
        return REDISMODULE_ERR;
    }
    redis.SetModuleOptions(ctx, module_options());

    if (read_load_arguments(ctx, argv, argc) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (register_commands(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (register_config(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    redis.RegisterInfoFunc(ctx, add_info);

    memset(&throttle_counters, 0, sizeof throttle_counters);
    unload_start(ctx);
    redis.Log(ctx, "notice", "funnel %s (%s) loaded, compat %s", FUNNEL_VERSION, FUNNEL_COMMIT,
              compat_names[throttle_limit_surplus]);
    return REDISMODULE_OK;
}

/* Called by the server on MODULE UNLOAD. */
PUBLIC int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
    if (unload_is_refused(ctx)) return REDISMODULE_ERR;
    throttle_stop();
    return REDISMODULE_OK;
}
