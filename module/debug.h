#ifndef FUNNEL_DEBUG_H
#define FUNNEL_DEBUG_H

#include "abi.h"

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds|real   sets the time that the commands see */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
