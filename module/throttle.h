#ifndef FUNNEL_THROTTLE_H
#define FUNNEL_THROTTLE_H

#include "abi.h"

/* CL.THROTTLE key capacity count period [quantity] */
int throttle_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Frees the string that calls share; the next call makes it again. */
void throttle_stop(void);

/* Added to the capacity argument to get the limit: 0, or 1 in redis-cell mode. */
extern int throttle_limit_surplus;

/* Calls since the module was loaded, by outcome. Those with quantity 0 count as
 * peeked, whatever the reply. */
struct throttle_counters {
    unsigned long long allowed, limited, peeked, errors;
};
extern struct throttle_counters throttle_counters;

#endif
