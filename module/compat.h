#ifndef FUNNEL_COMPAT_H
#define FUNNEL_COMPAT_H

/* The compat mode: how to read the capacity argument. */

#include "abi.h"

/* Added to the capacity argument to get the limit: 0, or 1 in redis-cell mode. */
extern int limit_surplus;

/* The name of the mode. */
const char *compat_name(void);

/* Accepts "compat none", "compat redis-cell" or no arguments. On anything else it
 * returns REDISMODULE_ERR, with a line in the log, because an ignored argument would
 * silently change limits. */
int compat_read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Registers the mode as the setting funnel.compat, for the configuration file and for
 * CONFIG GET, if the server has settings for modules. The load argument is its default.
 * It cannot change at run time, because clients that have learned one mode would go on
 * using it. */
int compat_register_setting(RedisModuleCtx *ctx);

#endif
