#ifndef FUNNEL_DEBUG_H
#define FUNNEL_DEBUG_H

#include "abi.h"

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds|real   what CL.THROTTLE takes for now
 *   ALLOCATIONS              objects that Go has allocated so far
 *   COLLECTIONS              garbage collections that Go started by itself
 *   COLLECT                  runs a garbage collection */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
