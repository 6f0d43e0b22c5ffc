#ifndef FUNNEL_KEY_H
#define FUNNEL_KEY_H

/* The key of a funnel: what is read out of it, what is written to it, and who is told.
 * Keys and names belong to the caller. */

#include "abi.h"
#include "call.h"

/* The bytes of a string of the server, which owns them. */
static inline struct text text_of(const RedisModuleString *string)
{
    struct text text;
    text.bytes = redis.StringPtrLen(string, &text.length);
    return text;
}

/* Points the funnel at the value of the key, which is not copied: a value of many
 * megabytes costs no more than a funnel. */
void key_read(struct funnel *funnel, RedisModuleKey *key);

/* Writes what the funnel says is to be written. */
void key_write(RedisModuleKey *key, const struct funnel *funnel);

/* Tell everybody who has to know of the write, once the key is closed: replicas and the
 * AOF; then WATCH, client-side caches and keyspace notifications. They all see the
 * ordinary SET with PXAT, or DEL, that a replica will execute.
 *
 * Replication comes first. Whatever looks the key up deletes it when the server's
 * clock says that it has expired, as it does after the clock was stepped; replicas
 * must learn of the SET before they learn of that deletion. */
void key_replicate(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *funnel);
void key_notify(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *funnel);

/* Frees what calls share, and will make again. */
void key_stop(void);

#endif
