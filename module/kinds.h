#ifndef FUNNEL_KINDS_H
#define FUNNEL_KINDS_H

/* The kinds of rows: how the key of each kind is read, written and announced. The functions key_...
 * call the function of the row's kind. Keys and words belong to the caller. The words of a row
 * begin with the name of its key. */

#include "abi.h"
#include "call.h"

struct kind_functions {
    void (*read)(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
    void (*write)(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
    void (*replicate)(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
    void (*notify)(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

    /* The last element of the row's reply: bytes of the row, or a constant. */
    struct text (*last_element)(const struct row *row);
};

/* Indexed by kind. */
extern const struct kind_functions kinds[];

/* Reads the state, at an instant in nanoseconds. Values are not copied, so a string of many
 * megabytes costs no more than a funnel's. */
static inline void key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                            int64_t now)
{
    kinds[row->kind].read(row, ctx, key, words, now);
}

/* Writes or removes the state, as go_decide has asked for in row->write. */
static inline void key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind].write(row, key, words, now);
}

/* key_replicate and key_notify announce the write after the key is closed. key_replicate sends
 * ordinary commands to replicas and the AOF. key_notify tells WATCH and client-side caches that the
 * key has changed, and sends the keyspace events of these commands.
 *
 * Replication comes first. Any lookup of the key deletes it if it has expired by the server's
 * clock, which may happen after the clock was stepped. Replicas must receive the write before they
 * receive that deletion. */
static inline void key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind].replicate(row, ctx, words);
}

static inline void key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    if (row->write == WRITE_NOTHING) return;
    redis.SignalModifiedKey(ctx, name);
    kinds[row->kind].notify(row, ctx, name);
}

/* The last element of the row's reply: bytes of the row, or a constant. */
static inline struct text key_last_element(const struct row *row)
{
    return kinds[row->kind].last_element(row);
}

/* For kinds whose state is a short string with an expiry: string_key.c. */
void string_key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
void string_key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

/* Frees the string that the calls share. The next call creates it again. */
void string_key_stop(void);

/* For slots, whose state is a sorted set: slots.c. */
void slots_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void slots_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void slots_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
void slots_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

/* The bytes of a string of the server, which owns them and keeps them as long as the string. */
static inline struct text text_of(const RedisModuleString *string)
{
    struct text text;
    text.bytes = redis.StringPtrLen(string, &text.length);
    return text;
}

/* The digits of a number: bytes of that very structure. */
static inline struct text digits_of(const struct decimal *decimal)
{
    return (struct text){decimal->bytes + decimal->start, decimal->end - decimal->start};
}

#endif
