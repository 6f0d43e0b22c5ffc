#ifndef FUNNEL_DEBUG_H
#define FUNNEL_DEBUG_H

#include "abi.h"

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds|real   the time that CL.THROTTLE sees */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
