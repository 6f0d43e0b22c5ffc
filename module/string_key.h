#ifndef FUNNEL_STRING_KEY_H
#define FUNNEL_STRING_KEY_H

/* The key of a kind whose state is a short string with an expiry: a funnel, a quota. The
 * functions are those of kind.h. */

#include "kind.h"

void string_key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
void string_key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

/* Frees the strings that calls share. The next call makes them again. */
void string_key_stop(void);

#endif
