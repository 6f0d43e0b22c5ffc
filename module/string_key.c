#include <string.h>

#include "kinds.h"

/* The constant word of the replicated SET, owned by this file. Every SET that waits to be sent to a
 * replica or the AOF holds a reference to it. A string of Redis 8.6 counts at most 2^23 references,
 * and the server ends itself with one more. So a new string replaces this one after 2^20 uses, far
 * below that number. */
static RedisModuleString *pxat;
static int pxat_uses;
enum { MAX_PXAT_USES = 1 << 20 };

static RedisModuleString *shared_pxat(void)
{
    if (pxat == NULL || ++pxat_uses == MAX_PXAT_USES) {
        string_key_stop();
        pxat = redis.CreateString(NULL, "PXAT", 4);
    }
    return pxat;
}

void string_key_stop(void)
{
    if (pxat != NULL) redis.FreeString(NULL, pxat);
    pxat = NULL;
    pxat_uses = 0;
}

void string_key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    (void)ctx, (void)words, (void)now;
    struct text *stored = &row->string.stored;
    *stored = (struct text){NULL, 0};
    row->string.stored_expiry = 0;
    switch (redis.KeyType(key)) {
    case REDISMODULE_KEYTYPE_EMPTY:
        row->stored = STORED_NOTHING;
        break;
    case REDISMODULE_KEYTYPE_STRING:
        row->stored = STORED_OF_KIND;
        stored->bytes = redis.StringDMA(key, &stored->length, REDISMODULE_READ);
        break;
    default:
        row->stored = STORED_OTHER_TYPE;
    }
}

/* Stores the new value and its expiry. From the year 2001 to 2286 a TAT has 19 digits, and a
 * quota's sum seldom gets another digit. So the new value nearly always fits in the place of the
 * old value, and the server does not have to delete and add the key. */
static void write_state(const struct string_key *string, enum stored stored, RedisModuleKey *key)
{
    struct text value = digits_of(&string->value);
    size_t length = 0;
    char *place = NULL;
    if (stored == STORED_OF_KIND) place = redis.StringDMA(key, &length, REDISMODULE_WRITE);
    if (place != NULL && length == value.length) {
        memcpy(place, value.bytes, length);
        if (string->stored_expiry == string->expiry_milliseconds) return;
    } else {
        RedisModuleString *copy = redis.CreateString(NULL, value.bytes, value.length);
        redis.StringSet(key, copy); /* takes a reference of its own */
        redis.FreeString(NULL, copy);
    }
    redis.SetAbsExpire(key, string->expiry_milliseconds);
}

void string_key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    (void)words, (void)now;
    if (row->write == WRITE_STATE)
        write_state(&row->string, row->stored, key);
    else
        redis.DeleteKey(key);
}

void string_key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    if (row->write == WRITE_STATE) {
        struct text value = digits_of(&row->string.value), expiry = digits_of(&row->string.expiry);
        redis.Replicate(ctx, "SET", "sbsb", words[0], value.bytes, value.length, shared_pxat(), expiry.bytes,
                        expiry.length);
    } else {
        redis.Replicate(ctx, "DEL", "s", words[0]);
    }
}

void string_key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    if (row->write == WRITE_STATE) {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_STRING, "set", name);
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
    } else {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
    }
}
