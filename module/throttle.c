#include "throttle.h"

#include <string.h>

#include "call.h"
#include "clock.h"

int throttle_limit_surplus;
struct throttle_counters throttle_counters;

/* The constant word of the replicated SET, owned by this file. Whatever waits to be
 * sent to a replica or the AOF holds a reference to it, and strings of Redis 8.6 count
 * no more than 2^23 of them: now and then a new string takes over. */
static RedisModuleString *pxat;
static int pxat_uses;
enum { MOST_PXAT_USES = 1 << 20 };

static RedisModuleString *shared_pxat(void)
{
    if (pxat == NULL || ++pxat_uses == MOST_PXAT_USES) {
        throttle_stop();
        pxat = redis.CreateString(NULL, "PXAT", 4);
    }
    return pxat;
}

void throttle_stop(void)
{
    if (pxat != NULL) redis.FreeString(NULL, pxat);
    pxat = NULL;
    pxat_uses = 0;
}

static struct text argument(RedisModuleString *string)
{
    struct text text;
    text.bytes = redis.StringPtrLen(string, &text.length);
    return text;
}

static void read_arguments(struct throttle_call *call, RedisModuleString **argv, int argc)
{
    call->capacity = argument(argv[2]);
    call->count = argument(argv[3]);
    call->period = argument(argv[4]);
    call->quantity = argc == 6 ? argument(argv[5]) : (struct text){"1", 1};
    call->limit_surplus = throttle_limit_surplus;
}

/* Points the call at the value of the key, which is not copied: a value of many
 * megabytes costs no more than a funnel. */
static void read_stored(struct throttle_call *call, RedisModuleKey *key)
{
    call->stored_value = (struct text){NULL, 0};
    switch (redis.KeyType(key)) {
    case REDISMODULE_KEYTYPE_EMPTY:
        call->stored = STORED_NOTHING;
        break;
    case REDISMODULE_KEYTYPE_STRING:
        call->stored = STORED_STRING;
        call->stored_value.bytes = redis.StringDMA(key, &call->stored_value.length, REDISMODULE_READ);
        break;
    default:
        call->stored = STORED_OTHER_TYPE;
    }
}

static struct text text_of(const struct digits *digits)
{
    return (struct text){digits->bytes + DIGITS_CAPACITY - digits->length, digits->length};
}

/* Stores the new TAT. A TAT has 19 digits from the year 2001 to 2286, so it
 * nearly always fits in the place of the old one, which saves the server from
 * deleting and adding the key. */
static void write_tat(RedisModuleKey *key, const struct throttle_call *call)
{
    struct text tat = text_of(&call->tat);
    size_t length = 0;
    char *place = NULL;
    if (call->stored == STORED_STRING) place = redis.StringDMA(key, &length, REDISMODULE_WRITE);
    if (place != NULL && length == tat.length) {
        memcpy(place, tat.bytes, length);
    } else {
        RedisModuleString *value = redis.CreateString(NULL, tat.bytes, tat.length);
        redis.StringSet(key, value); /* takes a reference of its own */
        redis.FreeString(NULL, value);
    }
    redis.SetAbsExpire(key, call->expiry_milliseconds);
}

/* Tells everybody who has to know of the write: replicas and the AOF, WATCH and
 * client-side caches, and keyspace notifications. They all see an ordinary SET
 * with PXAT, because that is what a replica will execute.
 *
 * Replication comes first. Whatever looks the key up deletes it when the server's
 * clock says that it has expired, as it does after the clock was stepped; replicas
 * must learn of the SET before they learn of that deletion. */
static void announce_write(RedisModuleCtx *ctx, RedisModuleString *name, const struct throttle_call *call)
{
    struct text tat = text_of(&call->tat), expiry = text_of(&call->expiry);
    redis.Replicate(ctx, "SET", "sbsb", name, tat.bytes, tat.length, shared_pxat(), expiry.bytes, expiry.length);
    redis.SignalModifiedKey(ctx, name);
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_STRING, "set", name);
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
}

static int reply_with_decision(RedisModuleCtx *ctx, const struct throttle_call *call)
{
    redis.ReplyWithArray(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) redis.ReplyWithLongLong(ctx, call->reply[i]);
    return REDISMODULE_OK;
}

static int reply_with_error(RedisModuleCtx *ctx, const struct throttle_call *call)
{
    throttle_counters.errors++;
    return redis.ReplyWithError(ctx, call->message);
}

/* The way of a call into Go and back:
 *
 *   go_parse, go_decide    variables of C, which funnel-finish points to   call.c
 *   go_parse, go_decide    functions of C, written in assembler, which     throttle/go_functions_*.s
 *                          keep C's registers, and call
 *   parse, decide          in Go                                           throttle/throttle.go */
int throttle_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc < 5 || argc > 6) return redis.WrongArity(ctx);

    /* Not cleared as a whole: every field that is read has been set before. */
    struct throttle_call call;
    read_arguments(&call, argv, argc);
    go_parse(&call);
    if (call.verdict != VERDICT_PARSED) return reply_with_error(ctx, &call);

    /* Opened for writing even though many calls write nothing: one lookup
     * serves both, and the module has turned the implicit "key was modified"
     * off, so closing the key leaves no trace. */
    RedisModuleString *name = argv[1];
    RedisModuleKey *key = redis.OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
    read_stored(&call, key);
    call.now = clock_nanoseconds();
    go_decide(&call);
    if (call.verdict == VERDICT_ALLOWED) write_tat(key, &call);
    redis.CloseKey(key);

    switch (call.verdict) {
    case VERDICT_ALLOWED:
        throttle_counters.allowed++;
        announce_write(ctx, name, &call);
        return reply_with_decision(ctx, &call);
    case VERDICT_LIMITED:
        throttle_counters.limited++;
        return reply_with_decision(ctx, &call);
    case VERDICT_PEEKED:
        throttle_counters.peeked++;
        return reply_with_decision(ctx, &call);
    default:
        return reply_with_error(ctx, &call);
    }
}
