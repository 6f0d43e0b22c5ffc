#ifndef FUNNEL_DEBUG_H
#define FUNNEL_DEBUG_H

#include "abi.h"

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds|real   what CL.THROTTLE takes for now
 *   ALLOCATIONS              objects that Go has allocated so far
 *   COLLECTIONS              garbage collections that Go started by itself
 *   COLLECT                  runs a garbage collection
 *   SIGNALSTACK              bytes of the main thread's signal stack, 0 for none */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
