#include <string.h>

#include "kind.h"

/* A funnel is a string: its TAT in decimal. The key expires when the funnel is empty. */

/* The constant word of the replicated SET, owned by this file. Every SET that waits to be
 * sent to a replica or the AOF holds a reference to it, and a string of Redis 8.6 counts
 * at most 2^23 references. So a new string replaces it from time to time. */
static RedisModuleString *pxat;
static int pxat_uses;
enum { MAX_PXAT_USES = 1 << 20 };

static RedisModuleString *shared_pxat(void)
{
    if (pxat == NULL || ++pxat_uses == MAX_PXAT_USES) {
        funnel_stop();
        pxat = redis.CreateString(NULL, "PXAT", 4);
    }
    return pxat;
}

void funnel_stop(void)
{
    if (pxat != NULL) redis.FreeString(NULL, pxat);
    pxat = NULL;
    pxat_uses = 0;
}

static void read_funnel(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                        int64_t now)
{
    (void)ctx, (void)words, (void)now;
    struct text *stored = &row->funnel.stored;
    *stored = (struct text){NULL, 0};
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

/* Stores the new TAT. From the year 2001 to 2286 a TAT has 19 digits. It therefore nearly
 * always fits in the place of the old one, and the server does not have to delete and add
 * the key. */
static void write_tat(const struct row *row, RedisModuleKey *key)
{
    struct text tat = digits_of(&row->funnel.tat);
    size_t length = 0;
    char *place = NULL;
    if (row->stored == STORED_OF_KIND) place = redis.StringDMA(key, &length, REDISMODULE_WRITE);
    if (place != NULL && length == tat.length) {
        memcpy(place, tat.bytes, length);
    } else {
        RedisModuleString *value = redis.CreateString(NULL, tat.bytes, tat.length);
        redis.StringSet(key, value); /* takes a reference of its own */
        redis.FreeString(NULL, value);
    }
    redis.SetAbsExpire(key, row->funnel.expiry_milliseconds);
}

static void write_funnel(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    (void)words, (void)now;
    if (row->write == WRITE_STATE)
        write_tat(row, key);
    else
        redis.DeleteKey(key);
}

static void replicate_funnel(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    if (row->write == WRITE_STATE) {
        struct text tat = digits_of(&row->funnel.tat), expiry = digits_of(&row->funnel.expiry);
        redis.Replicate(ctx, "SET", "sbsb", words[0], tat.bytes, tat.length, shared_pxat(), expiry.bytes,
                        expiry.length);
    } else {
        redis.Replicate(ctx, "DEL", "s", words[0]);
    }
}

static void notify_funnel(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    if (row->write == WRITE_STATE) {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_STRING, "set", name);
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
    } else {
        redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
    }
}

/* The receipt. */
static struct text funnel_last_element(const struct row *row)
{
    return row->funnel.has_receipt ? digits_of(&row->funnel.tat) : (struct text){"0", 1};
}

const struct kind_functions funnel_functions = {read_funnel, write_funnel, replicate_funnel, notify_funnel,
                                                funnel_last_element};
