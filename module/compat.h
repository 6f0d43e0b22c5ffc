#ifndef FUNNEL_COMPAT_H
#define FUNNEL_COMPAT_H

/* The mode compat: how the capacity argument reads. */

#include "abi.h"

/* Added to the capacity argument to get the limit: 0, or 1 in redis-cell mode. */
extern int limit_surplus;

/* The name of the mode. */
const char *compat_name(void);

/* Reads "compat none|redis-cell", or nothing. Returns REDISMODULE_ERR, with a
 * line in the log, on anything else. An ignored argument would silently change
 * limits. */
int compat_read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Makes the mode visible as `CONFIG GET funnel.compat`, and settable in the
 * configuration file, where the server has settings for modules. The load
 * argument is its default. It cannot change at run time: clients that learned
 * one reading would go on with it. */
int compat_register_setting(RedisModuleCtx *ctx);

#endif
