#ifndef FUNNEL_THROTTLE_H
#define FUNNEL_THROTTLE_H

#include "abi.h"

/* CL.THROTTLE key capacity count period [quantity] */
int throttle_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
