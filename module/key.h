#ifndef FUNNEL_KEY_H
#define FUNNEL_KEY_H

/* The key of a row, of any kind: each function calls the function of the row's kind (kind.h).
 * Keys and words belong to the caller. The words of a row begin with the name of its key. */

#include "kind.h"

/* Indexed by kind. */
extern const struct kind_functions *const kinds[];

/* Reads the state, at an instant in nanoseconds. Values are not copied, so a string of many
 * megabytes costs no more than a funnel's. */
static inline void key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                            int64_t now)
{
    kinds[row->kind]->read(row, ctx, key, words, now);
}

/* Makes the write that the row asks for. */
static inline void key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind]->write(row, key, words, now);
}

/* key_replicate and key_notify announce the write after the key is closed. key_replicate sends ordinary commands to
 * replicas and the AOF. key_notify tells WATCH and client-side caches that the key has changed, and sends the keyspace
 * events of these commands.
 *
 * Replication comes first. Any lookup of the key deletes it if it has expired by the server's clock, which may happen
 * after the clock was stepped. Replicas must receive the write before they receive that deletion. */
static inline void key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind]->replicate(row, ctx, words);
}

static inline void key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    if (row->write == WRITE_NOTHING) return;
    redis.SignalModifiedKey(ctx, name);
    kinds[row->kind]->notify(row, ctx, name);
}

/* The last element of the row's reply. */
static inline struct text key_last_element(const struct row *row)
{
    return kinds[row->kind]->last_element(row);
}

#endif
