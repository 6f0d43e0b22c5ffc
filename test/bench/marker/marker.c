/* The module that funnel-bench loads in addition to the one it measures, compiled when it runs. It
 * has these commands:
 *
 *   BENCH.NOOP key argument...   replies five integers and does nothing else: the cost of any
 *                                module command before its own work
 *   BENCH.MARK                   replies an integer; callgrind, with the option
 *                                --dump-before=bench_mark, writes its count since the last mark
 *
 * So one run of a server under callgrind measures any number of commands, without a debugger
 * interface and without symbols of the server.
 *
 * The floor of CL.THROTTLE is two commands that make the same calls of the Modules API, in the same
 * order (module/commands.c), with constants instead of parsed numbers and a decision:
 *
 *   BENCH.ALLOW key capacity count period quantity   as an allowed CL.THROTTLE
 *   BENCH.LIMIT key capacity count period quantity   as a limited CL.THROTTLE
 *
 * Any cost of CL.THROTTLE above these is funnel's own: arguments, arithmetic. The names are as long
 * as CL.THROTTLE, and the constants have as many digits as the numbers in the calls that are
 * counted. */

#include <string.h>
#include <time.h>

#include "abi.h"

enum { REPLY_LENGTH = 5 };

/* In the year 2200: no key expires during a measurement. */
static const char tat[] = "7258118400000000000", expiry[] = "7258118400000";
static const long long expiry_milliseconds = 7258118400000;
static const long long allowed_reply[REPLY_LENGTH] = {0, 700000, 699990, -1, 90};
static const long long limited_reply[REPLY_LENGTH] = {1, 1, 0, 599990, 599990};

static RedisModuleString *pxat;

/* Receives values that were read: the compiler would leave out reads of unused values. */
static volatile long long sink;

static void read_words(RedisModuleString **words, int count)
{
    for (int i = 0; i < count; i++) {
        size_t length;
        sink = *redis.StringPtrLen(words[i], &length);
        sink = (long long)length;
    }
}

static void read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sink = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int read_stored(RedisModuleKey *key)
{
    size_t length;
    if (redis.KeyType(key) != REDISMODULE_KEYTYPE_STRING) return 0;
    sink = *redis.StringDMA(key, &length, REDISMODULE_READ);
    return 1;
}

static void write_tat(RedisModuleKey *key, int stored)
{
    const size_t tat_length = sizeof(tat) - 1;
    size_t length = 0;
    char *place = NULL;
    if (stored) place = redis.StringDMA(key, &length, REDISMODULE_WRITE);
    if (place != NULL && length == tat_length) {
        memcpy(place, tat, tat_length);
    } else {
        RedisModuleString *value = redis.CreateString(NULL, tat, tat_length);
        redis.StringSet(key, value);
        redis.FreeString(NULL, value);
    }
    redis.SetAbsExpire(key, expiry_milliseconds);
}

static int reply(RedisModuleCtx *ctx, const long long *numbers)
{
    redis.ReplyWithArray(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) redis.ReplyWithLongLong(ctx, numbers[i]);
    return REDISMODULE_OK;
}

static int noop(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv, (void)argc;
    redis.ReplyWithArray(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) redis.ReplyWithLongLong(ctx, i);
    return REDISMODULE_OK;
}

/* Callgrind knows the function by this name. */
static __attribute__((noinline)) int bench_mark(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv, (void)argc;
    return redis.ReplyWithLongLong(ctx, 1);
}

static int allow(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 6) return redis.WrongArity(ctx);
    read_words(argv + 2, 4);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], REDISMODULE_READ | REDISMODULE_WRITE);
    int stored = read_stored(key);
    read_clock();
    write_tat(key, stored);
    redis.CloseKey(key);
    redis.Replicate(ctx, "SET", "sbsb", argv[1], tat, sizeof(tat) - 1, pxat, expiry, sizeof(expiry) - 1);
    redis.SignalModifiedKey(ctx, argv[1]);
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_STRING, "set", argv[1]);
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", argv[1]);
    return reply(ctx, allowed_reply);
}

static int limit(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 6) return redis.WrongArity(ctx);
    read_words(argv + 2, 4);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], REDISMODULE_READ | REDISMODULE_WRITE);
    int stored = read_stored(key);
    read_clock();
    /* A limited call finds the key that an allowed call has left. */
    if (!stored) write_tat(key, stored);
    redis.CloseKey(key);
    return reply(ctx, limited_reply);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv, (void)argc;
    if (find_functions(ctx) != NULL) return REDISMODULE_ERR;
    redis.SetModuleAttribs(ctx, "bench", 1, REDISMODULE_APIVER_1);
    /* As in module/load.c. Otherwise, closing the key would call SignalModifiedKey a second
     * time. */
    redis.SetModuleOptions(ctx, REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
    pxat = redis.CreateString(NULL, "PXAT", 4);
    if (redis.CreateCommand(ctx, "bench.noop", noop, "fast", 1, 1, 1) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (redis.CreateCommand(ctx, "bench.mark", bench_mark, "fast", 0, 0, 0) != REDISMODULE_OK) return REDISMODULE_ERR;
    if (redis.CreateCommand(ctx, "bench.allow", allow, "write deny-oom fast", 1, 1, 1) != REDISMODULE_OK)
        return REDISMODULE_ERR;
    return redis.CreateCommand(ctx, "bench.limit", limit, "write deny-oom fast", 1, 1, 1);
}
