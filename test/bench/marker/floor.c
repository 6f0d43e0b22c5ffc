/* The floor of CL.THROTTLE: two commands that make the calls of the Modules API which
 * CL.THROTTLE makes, in the same order (module/throttle.c), and have constants in the
 * place of numbers that are parsed, and of a decision.
 *
 *   BENCH.ALLOW key capacity count period quantity   as an allowed call
 *   BENCH.LIMIT key capacity count period quantity   as a limited one
 *
 * What CL.THROTTLE takes over them is funnel's own: arguments, arithmetic, replies.
 * The names are as long as CL.THROTTLE, and the constants have as many digits as what
 * takes their place in the calls that are counted. */

#include <stddef.h>
#include <string.h>
#include <time.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleKey RedisModuleKey;
typedef int (*command_function)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#define FUNCTIONS(FUNCTION)                                                                                         \
    FUNCTION(void, SetModuleOptions, (RedisModuleCtx *ctx, int options))                                            \
    FUNCTION(int, CreateCommand, (RedisModuleCtx *ctx, const char *name, command_function function,                 \
                                  const char *flags, int first_key, int last_key, int key_step))                    \
    FUNCTION(RedisModuleString *, CreateString, (RedisModuleCtx *ctx, const char *bytes, size_t length))            \
    FUNCTION(void, FreeString, (RedisModuleCtx *ctx, RedisModuleString *string))                                    \
    FUNCTION(const char *, StringPtrLen, (const RedisModuleString *string, size_t *length))                         \
    FUNCTION(RedisModuleKey *, OpenKey, (RedisModuleCtx *ctx, RedisModuleString *name, int mode))                   \
    FUNCTION(void, CloseKey, (RedisModuleKey *key))                                                                 \
    FUNCTION(int, KeyType, (RedisModuleKey *key))                                                                   \
    FUNCTION(char *, StringDMA, (RedisModuleKey *key, size_t *length, int mode))                                    \
    FUNCTION(int, StringSet, (RedisModuleKey *key, RedisModuleString *value))                                       \
    FUNCTION(int, SetAbsExpire, (RedisModuleKey *key, long long unix_milliseconds))                                 \
    FUNCTION(int, SignalModifiedKey, (RedisModuleCtx *ctx, RedisModuleString *name))                                \
    FUNCTION(int, NotifyKeyspaceEvent, (RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *name)) \
    FUNCTION(int, Replicate, (RedisModuleCtx *ctx, const char *command, const char *format, ...))                   \
    FUNCTION(int, WrongArity, (RedisModuleCtx *ctx))                                                                \
    FUNCTION(int, ReplyWithArray, (RedisModuleCtx *ctx, long length))                                               \
    FUNCTION(int, ReplyWithLongLong, (RedisModuleCtx *ctx, long long number))

static struct {
#define FUNCTION(result, name, parameters) result(*name) parameters;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} redis;

enum { OK = 0, ERROR = 1 };
enum { READ = 1, WRITE = 2 };
enum { TYPE_STRING = 1 };
enum { NOTIFY_GENERIC = 1 << 2, NOTIFY_STRING = 1 << 3 };
enum { NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1 };
enum { REPLY_LENGTH = 5 };

/* In the year 2200, so that no key expires meanwhile. */
static const char tat[] = "7258118400000000000", expiry[] = "7258118400000";
static const long long expiry_milliseconds = 7258118400000;
static const long long allowed_reply[REPLY_LENGTH] = {0, 700000, 699990, -1, 90};
static const long long limited_reply[REPLY_LENGTH] = {1, 1, 0, 599990, 599990};

static RedisModuleString *pxat;

/* Where what was read goes, lest the compiler leave reading out. */
static volatile long long sink;

static void read_arguments(RedisModuleString **argv)
{
    for (int i = 2; i < 6; i++) {
        size_t length;
        sink = *redis.StringPtrLen(argv[i], &length);
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
    if (redis.KeyType(key) != TYPE_STRING) return 0;
    sink = *redis.StringDMA(key, &length, READ);
    return 1;
}

static void write_tat(RedisModuleKey *key, int stored)
{
    const size_t tat_length = sizeof(tat) - 1;
    size_t length = 0;
    char *place = NULL;
    if (stored) place = redis.StringDMA(key, &length, WRITE);
    if (place != NULL && length == tat_length) {
        memcpy(place, tat, tat_length);
    } else {
        RedisModuleString *value = redis.CreateString(NULL, tat, tat_length);
        redis.StringSet(key, value);
        redis.FreeString(NULL, value);
    }
    redis.SetAbsExpire(key, expiry_milliseconds);
}

static void announce_write(RedisModuleCtx *ctx, RedisModuleString *name)
{
    redis.Replicate(ctx, "SET", "sbsb", name, tat, sizeof(tat) - 1, pxat, expiry, sizeof(expiry) - 1);
    redis.SignalModifiedKey(ctx, name);
    redis.NotifyKeyspaceEvent(ctx, NOTIFY_STRING, "set", name);
    redis.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", name);
}

static int reply(RedisModuleCtx *ctx, const long long *numbers)
{
    redis.ReplyWithArray(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) redis.ReplyWithLongLong(ctx, numbers[i]);
    return OK;
}

static int allow(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 6) return redis.WrongArity(ctx);
    read_arguments(argv);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], READ | WRITE);
    int stored = read_stored(key);
    read_clock();
    write_tat(key, stored);
    redis.CloseKey(key);
    announce_write(ctx, argv[1]);
    return reply(ctx, allowed_reply);
}

static int limit(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 6) return redis.WrongArity(ctx);
    read_arguments(argv);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], READ | WRITE);
    int stored = read_stored(key);
    read_clock();
    /* A limited call finds the key that an allowed one has left. */
    if (!stored) write_tat(key, stored);
    redis.CloseKey(key);
    return reply(ctx, limited_reply);
}

int load_floor(RedisModuleCtx *ctx, int (*get_api)(const char *name, void *target))
{
#define FUNCTION(result, name, parameters) \
    if (get_api("RedisModule_" #name, &redis.name) != OK) return ERROR;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    /* As module/load.c does, or closing the key would make the call of
     * SignalModifiedKey a second one. */
    redis.SetModuleOptions(ctx, NO_IMPLICIT_SIGNAL_MODIFIED);
    pxat = redis.CreateString(NULL, "PXAT", 4);
    if (redis.CreateCommand(ctx, "bench.allow", allow, "write deny-oom fast", 1, 1, 1) != OK) return ERROR;
    return redis.CreateCommand(ctx, "bench.limit", limit, "write deny-oom fast", 1, 1, 1);
}
