#ifndef FUNNEL_CLOCK_H
#define FUNNEL_CLOCK_H

#include "abi.h"

/* Nanoseconds since the Unix epoch by the machine's real-time clock, which the server's own expiry
 * follows. The server's API has only milliseconds, so the clock is read here. */
int64_t clock_nanoseconds(void);

/* FUNNEL.DEBUG, in builds with the tag funneldebug:
 *
 *   CLOCK nanoseconds   sets the time that the commands see; below 0, it is the machine's */
int debug_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
