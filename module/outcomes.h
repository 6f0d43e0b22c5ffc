#ifndef FUNNEL_OUTCOMES_H
#define FUNNEL_OUTCOMES_H

#include "abi.h"
#include "call.h"

/* Calls since the module was loaded, by outcome. */
extern unsigned long long reply_counts[VERDICT_COUNT];

/* Shows the counts in INFO. */
void reply_add_counts(RedisModuleInfoCtx *info);

/* Replies with the error, and counts it. */
int reply_with_error(RedisModuleCtx *ctx, const struct outcome *outcome);

#endif
