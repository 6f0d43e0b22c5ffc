#ifndef FUNNEL_COMPAT_H
#define FUNNEL_COMPAT_H

/* The only load argument: "compat none", the default, or "compat redis-cell". */

#include "abi.h"

/* How CL.THROTTLE reads its capacity argument. Added to it to get the limit: 0 for "none",
 * 1 for "redis-cell". */
extern int compat_surplus;

/* Sets compat_surplus. On anything that it does not understand it returns REDISMODULE_ERR,
 * with a line in the log, because an ignored argument would silently change limits. */
int compat_read(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* The value that is in force. */
const char *compat_name(void);

#endif
