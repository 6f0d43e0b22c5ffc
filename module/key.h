#ifndef FUNNEL_KEY_H
#define FUNNEL_KEY_H

/* The key of a row: reading it, writing it, and announcing the write. Of slots, slots.h does it.
 * Keys and words belong to the caller. The words of a row begin with the name of its key. */

#include "abi.h"
#include "call.h"

/* The bytes of a server's string. The server owns them. */
static inline struct text text_of(const RedisModuleString *string)
{
    struct text text;
    text.bytes = redis.StringPtrLen(string, &text.length);
    return text;
}

static inline struct text digits_of(const struct decimal *decimal)
{
    return (struct text){decimal->bytes + decimal->start, decimal->end - decimal->start};
}

/* Points the funnel at the key's value. The value is not copied, so one of many megabytes
 * costs no more than a funnel's. */
void key_read(struct funnel *funnel, RedisModuleKey *key, RedisModuleString **words, int64_t now);

/* Makes the write that the funnel asks for. */
void key_write(RedisModuleKey *key, struct funnel *funnel, RedisModuleString **words, int64_t now);

/* Announce the write, once the key is closed: to replicas and the AOF; then to WATCH,
 * client-side caches and keyspace notifications. They all see the ordinary SET with PXAT,
 * or DEL, that a replica will execute.
 *
 * Replication comes first. Any lookup of the key deletes it if it has expired by the
 * server's clock, which may happen after the clock was stepped. Replicas must receive the
 * SET before they receive that deletion. */
void key_replicate(RedisModuleCtx *ctx, RedisModuleString **words, const struct funnel *funnel);
void key_notify(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *funnel);

/* Frees the strings that calls share. The next call makes them again. */
void key_stop(void);

#endif
