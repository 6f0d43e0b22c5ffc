#include "key.h"

#include <string.h>

#include "slots.h"

/* Which word of a row of slots is the holder. */
enum { HOLDER = 4 };

/* The constant word of the replicated SET, owned by this file. Every SET that waits to be
 * sent to a replica or the AOF holds a reference to it, and a string of Redis 8.6 counts
 * at most 2^23 references. So a new string replaces it from time to time. */
static RedisModuleString *pxat;
static int pxat_uses;
enum { MOST_PXAT_USES = 1 << 20 };

static RedisModuleString *shared_pxat(void)
{
    if (pxat == NULL || ++pxat_uses == MOST_PXAT_USES) {
        key_stop();
        pxat = redis.CreateString(NULL, "PXAT", 4);
    }
    return pxat;
}

void key_stop(void)
{
    if (pxat != NULL) redis.FreeString(NULL, pxat);
    pxat = NULL;
    pxat_uses = 0;
}

void key_read(struct funnel *funnel, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    if (funnel->kind == SLOTS) {
        slots_read(funnel, key, words[HOLDER], now);
        return;
    }
    funnel->stored_value = (struct text){NULL, 0};
    switch (redis.KeyType(key)) {
    case REDISMODULE_KEYTYPE_EMPTY:
        funnel->stored = STORED_NOTHING;
        break;
    case REDISMODULE_KEYTYPE_STRING:
        funnel->stored = STORED_VALUE;
        funnel->stored_value.bytes = redis.StringDMA(key, &funnel->stored_value.length, REDISMODULE_READ);
        break;
    default:
        funnel->stored = STORED_OTHER_TYPE;
    }
}

/* Stores the new TAT. From the year 2001 to 2286 a TAT has 19 digits. It therefore nearly
 * always fits in the place of the old one, and the server does not have to delete and add
 * the key. */
static void write_tat(RedisModuleKey *key, const struct funnel *funnel)
{
    struct text tat = digits_of(&funnel->tat);
    size_t length = 0;
    char *place = NULL;
    if (funnel->stored == STORED_VALUE) place = redis.StringDMA(key, &length, REDISMODULE_WRITE);
    if (place != NULL && length == tat.length) {
        memcpy(place, tat.bytes, length);
    } else {
        RedisModuleString *value = redis.CreateString(NULL, tat.bytes, tat.length);
        redis.StringSet(key, value); /* takes a reference of its own */
        redis.FreeString(NULL, value);
    }
    redis.SetAbsExpire(key, funnel->expiry_milliseconds);
}

void key_write(RedisModuleKey *key, struct funnel *funnel, RedisModuleString **words, int64_t now)
{
    if (funnel->write == WRITE_NOTHING) return;
    if (funnel->kind == SLOTS)
        slots_write(key, funnel, words[HOLDER], now);
    else if (funnel->write == WRITE_TAT)
        write_tat(key, funnel);
    else
        redis.DeleteKey(key);
}

void key_replicate(RedisModuleCtx *ctx, RedisModuleString **words, const struct funnel *funnel)
{
    RedisModuleString *name = words[0];
    if (funnel->write == WRITE_NOTHING) return;
    if (funnel->kind == SLOTS) {
        slots_replicate(ctx, name, funnel, words[HOLDER]);
    } else if (funnel->write == WRITE_TAT) {
        struct text tat = digits_of(&funnel->tat), expiry = digits_of(&funnel->expiry);
        redis.Replicate(ctx, "SET", "sbsb", name, tat.bytes, tat.length, shared_pxat(), expiry.bytes, expiry.length);
    } else {
        redis.Replicate(ctx, "DEL", "s", name);
    }
}

void key_notify(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *funnel)
{
    if (funnel->write == WRITE_NOTHING) return;
    redis.SignalModifiedKey(ctx, name);
    if (funnel->kind == SLOTS) {
        slots_notify(ctx, name, funnel);
    } else if (funnel->write == WRITE_TAT) {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_STRING, "set", name);
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
    } else {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
    }
}
