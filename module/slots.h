#ifndef FUNNEL_SLOTS_H
#define FUNNEL_SLOTS_H

/* The key of slots, a sorted set: each member is a holder, its score the Unix time in milliseconds
 * at which the slot ends. Keys, names and holders belong to the caller. */

#include "abi.h"
#include "call.h"

/* Reads what the row needs of the set, at an instant in nanoseconds. A slot runs until
 * the instant, in whole milliseconds, reaches its end. */
void slots_read(struct funnel *row, RedisModuleKey *key, RedisModuleString *holder, int64_t nanoseconds);

/* Makes the write that the row asks for, and removes slots that have ended, up to 1,000. */
void slots_write(RedisModuleKey *key, struct funnel *row, RedisModuleString *holder, int64_t nanoseconds);

/* Announce the write, once the key is closed, as key.h says of a funnel's. */
void slots_replicate(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *row, RedisModuleString *holder);
void slots_notify(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *row);

#endif
