#ifndef FUNNEL_COMPAT_H
#define FUNNEL_COMPAT_H

/* The only load argument: "compat none", the default, or "compat redis-cell". */

#include "abi.h"

/* CL.THROTTLE adds this to its capacity argument to get the limit: 0 for "none", 1 for
 * "redis-cell". */
extern int compat_surplus;

/* Reads the load arguments, and sets compat_surplus. For an argument that is not accepted it logs
 * the reason and returns REDISMODULE_ERR: ignoring an argument would silently change limits. */
int compat_read(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* The name of the setting that is in force: a string constant. */
const char *compat_name(void);

#endif
