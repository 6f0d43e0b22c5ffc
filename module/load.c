#include <string.h>

#include "abi.h"
#include "call.h"
#include "kinds.h"
#include "register.h"
#include "reply.h"
#include "compat.h"
#include "unload.h"
#include "version.h"

#define PUBLIC __attribute__((visibility("default")))

/* Fills the section `funnel` of INFO. */
static void add_info(RedisModuleInfoCtx *info, int for_crash_report)
{
    (void)for_crash_report;
    redis.InfoAddSection(info, "");
    redis.InfoAddFieldCString(info, "version", FUNNEL_BUILD);
    redis.InfoAddFieldCString(info, "commit", FUNNEL_COMMIT);
    redis.InfoAddFieldCString(info, "compat", compat_name());
    reply_add_counts(info);
}

/* Valkey refuses some of its features while a module is loaded that does not declare the option for
 * them: atomic migration of slots, and saves without a fork. Options that the server does not know
 * are left out, because a later server may give their bits another meaning. */
static int module_options(void)
{
    const int options_of_valkey =
        VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION | VALKEYMODULE_OPTIONS_HANDLE_FORKLESS;
    int options = REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    if (redis.GetModuleOptionsAll != NULL) options |= redis.GetModuleOptionsAll() & options_of_valkey;
    return options;
}

/* Called by the server on MODULE LOAD or loadmodule. Sets every static variable again, because the
 * library may still be in the process from an earlier load: musl keeps a library that was
 * unloaded. */
PUBLIC int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    const char *missing = find_functions(ctx);
    if (redis.SetModuleAttribs == NULL || redis.IsModuleNameBusy == NULL || redis.Log == NULL) return REDISMODULE_ERR;
    /* Before anything else is set: the module that is already loaded may be this very library. */
    if (redis.IsModuleNameBusy("funnel")) {
        redis.Log(ctx, "warning", "funnel is not loaded: a module of that name is already loaded");
        return REDISMODULE_ERR;
    }
    redis.SetModuleAttribs(ctx, "funnel", FUNNEL_BUILD_NUMBER, REDISMODULE_APIVER_1);
    if (missing != NULL) {
        redis.Log(ctx, "warning",
                  "funnel is not loaded: this server lacks RedisModule_%s, which Redis 6.2.8 and newer and Valkey have",
                  missing);
        return REDISMODULE_ERR;
    }
    const char *fault = check_go();
    if (fault != NULL) {
        redis.Log(ctx, "warning", "funnel is not loaded: %s", fault);
        return REDISMODULE_ERR;
    }
    if (!can_register(ctx)) return REDISMODULE_ERR;
    redis.SetModuleOptions(ctx, module_options());

    if (compat_read(ctx, argv, argc) != REDISMODULE_OK) return REDISMODULE_ERR;
    redis.RegisterInfoFunc(ctx, add_info);
    memset(reply_counts, 0, sizeof reply_counts);
    redis.Log(ctx, "notice", "funnel %s (%s) loaded, compat %s", FUNNEL_BUILD, FUNNEL_COMMIT, compat_name());
    /* Registering comes last, after everything that writes to the log, because the server may still
     * reject the load (unload.h). */
    if (register_commands(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    unload_start(ctx);
    return REDISMODULE_OK;
}

/* Called by the server on MODULE UNLOAD. */
PUBLIC int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
    if (unload_is_refused(ctx)) return REDISMODULE_ERR;
    string_key_stop();
    return REDISMODULE_OK;
}
