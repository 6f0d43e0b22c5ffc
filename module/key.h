#ifndef FUNNEL_KEY_H
#define FUNNEL_KEY_H

/* The key of a row, of any kind. Keys and words belong to the caller. The words of a row
 * begin with the name of its key. */

#include "abi.h"
#include "call.h"

/* Reads the state, at an instant in nanoseconds. Values are not copied, so a string of many
 * megabytes costs no more than a funnel's. */
void key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);

/* Makes the write that the row asks for. */
void key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);

/* Announce the write, once the key is closed: to replicas and the AOF; then to WATCH,
 * client-side caches and keyspace notifications. They all see the ordinary commands that a
 * replica will execute.
 *
 * Replication comes first. Any lookup of the key deletes it if it has expired by the
 * server's clock, which may happen after the clock was stepped. Replicas must receive the
 * write before they receive that deletion. */
void key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
void key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

/* The last element of the row's reply. */
struct text key_reply(const struct row *row);

#endif
