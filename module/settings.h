#ifndef FUNNEL_SETTINGS_H
#define FUNNEL_SETTINGS_H

/* The settings: a load argument each, such as "compat redis-cell", and the same in the
 * configuration file, such as "funnel.compat redis-cell". */

#include "abi.h"

/* compat: how to read the capacity argument. Added to it to get the limit: 0 for "none",
 * 1 for "redis-cell". */
extern int limit_surplus;

/* gcra: whether to register the command GCRA. 0 for "no", 1 for "yes". */
extern int has_gcra;

/* Accepts any number of load arguments, in pairs of a name and a value. On anything else
 * it returns REDISMODULE_ERR, with a line in the log, because an ignored argument would
 * silently change limits. */
int settings_read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Registers the settings for the configuration file and for CONFIG GET, if the server has
 * settings for modules. The load arguments are their defaults. They cannot change at run
 * time, because clients that have learned one mode would go on using it. */
int settings_register(RedisModuleCtx *ctx);

/* Shows the settings in INFO, as they are in force. */
void settings_add_info(RedisModuleInfoCtx *info);

/* The value of compat that is in force. */
const char *compat_name(void);

#endif
