#ifndef FUNNEL_DEBUG_H
#define FUNNEL_DEBUG_H

#include "abi.h"

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds|real   what CL.THROTTLE takes for now */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
