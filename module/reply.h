#ifndef FUNNEL_REPLY_H
#define FUNNEL_REPLY_H

#include "abi.h"
#include "call.h"

/* Calls since the module was loaded, by verdict. */
extern unsigned long long reply_counts[VERDICT_COUNT];

/* Shows the counts in INFO. */
void reply_add_counts(RedisModuleInfoCtx *info);

/* Sends the reply that go_parse or go_decide has put into the call, and counts the call. */
int reply(RedisModuleCtx *ctx, const struct call *call);

#endif
