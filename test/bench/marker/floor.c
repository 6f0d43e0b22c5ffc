/* The floor of CL.THROTTLE and CL.RESERVE: commands that make the same calls of the Modules
 * API, in the same order (module/commands.c), but with constants instead of parsed numbers
 * and a decision.
 *
 *   BENCH.ALLOW key capacity count period quantity         as an allowed CL.THROTTLE
 *   BENCH.LIMIT key capacity count period quantity         as a limited one
 *   BENCH.TAKE key capacity count period quantity [...]    as an allowed CL.RESERVE
 *   BENCH.STOP key capacity count period quantity [...]    as a limited one
 *
 * Any cost of the commands above these is funnel's own: arguments, arithmetic, replies.
 * The names are as long as those of the commands, and the constants have as many digits
 * as the numbers in the calls that are counted. */

#include <stddef.h>
#include <string.h>
#include <time.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleKey RedisModuleKey;
typedef int (*command_function)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* clang-format off */
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
    FUNCTION(int, ReplyWithLongLong, (RedisModuleCtx *ctx, long long number))                                       \
    FUNCTION(int, ReplyWithStringBuffer, (RedisModuleCtx *ctx, const char *bytes, size_t length))
/* clang-format on */

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
enum { REPLY_LENGTH = 5, WORDS_PER_FUNNEL = 5, MOST_FUNNELS = 64 };

/* In the year 2200: no key expires meanwhile. */
static const char tat[] = "7258118400000000000", expiry[] = "7258118400000";
static const long long expiry_milliseconds = 7258118400000;
static const long long allowed_reply[REPLY_LENGTH] = {0, 700000, 699990, -1, 90};
static const long long limited_reply[REPLY_LENGTH] = {1, 1, 0, 599990, 599990};

struct row {
    long long limited, limit, remaining;
    const char *wait, *reset_after;
};
static const struct row taken_row = {0, 700000, 699990, "0", "59.999876543"};
static const struct row stopped_row = {1, 1, 0, "599990.123456789", "599990.123456789"};

static RedisModuleString *pxat;

/* Takes what was read, because the compiler would leave out reads that nobody uses. */
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

static void replicate(RedisModuleCtx *ctx, RedisModuleString *name)
{
    redis.Replicate(ctx, "SET", "sbsb", name, tat, sizeof(tat) - 1, pxat, expiry, sizeof(expiry) - 1);
}

static void notify(RedisModuleCtx *ctx, RedisModuleString *name)
{
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
    read_words(argv + 2, 4);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], READ | WRITE);
    int stored = read_stored(key);
    read_clock();
    write_tat(key, stored);
    redis.CloseKey(key);
    replicate(ctx, argv[1]);
    notify(ctx, argv[1]);
    return reply(ctx, allowed_reply);
}

static int limit(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (argc != 6) return redis.WrongArity(ctx);
    read_words(argv + 2, 4);
    RedisModuleKey *key = redis.OpenKey(ctx, argv[1], READ | WRITE);
    int stored = read_stored(key);
    read_clock();
    /* A limited call finds the key that an allowed one has left. */
    if (!stored) write_tat(key, stored);
    redis.CloseKey(key);
    return reply(ctx, limited_reply);
}

static void reply_with_text(RedisModuleCtx *ctx, const char *text)
{
    redis.ReplyWithStringBuffer(ctx, text, strlen(text));
}

static int reply_with_rows(RedisModuleCtx *ctx, const struct row *row, int count)
{
    redis.ReplyWithArray(ctx, 3);
    redis.ReplyWithLongLong(ctx, row->limited);
    reply_with_text(ctx, row->wait);
    redis.ReplyWithArray(ctx, count);
    for (int i = 0; i < count; i++) {
        redis.ReplyWithArray(ctx, 6);
        redis.ReplyWithLongLong(ctx, row->limited);
        redis.ReplyWithLongLong(ctx, row->limit);
        redis.ReplyWithLongLong(ctx, row->remaining);
        reply_with_text(ctx, row->wait);
        reply_with_text(ctx, row->reset_after);
        reply_with_text(ctx, row->limited ? "0" : tat);
    }
    return OK;
}

/* As an allowed call, or as a limited one, which finds the keys that an allowed call has
 * left. */
static int funnels(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int takes)
{
    int count = (argc - 1) / WORDS_PER_FUNNEL;
    RedisModuleKey *keys[MOST_FUNNELS];
    int stored[MOST_FUNNELS];
    if (argc != 1 + count * WORDS_PER_FUNNEL || count < 1 || count > MOST_FUNNELS) return redis.WrongArity(ctx);
    read_words(argv + 1, argc - 1);
    for (int i = 0; i < count; i++) keys[i] = redis.OpenKey(ctx, argv[1 + i * WORDS_PER_FUNNEL], READ | WRITE);
    for (int i = 0; i < count; i++) stored[i] = read_stored(keys[i]);
    read_clock();
    for (int i = 0; i < count; i++) {
        if (takes || !stored[i]) write_tat(keys[i], stored[i]);
        redis.CloseKey(keys[i]);
    }
    if (!takes) return reply_with_rows(ctx, &stopped_row, count);
    for (int i = 0; i < count; i++) replicate(ctx, argv[1 + i * WORDS_PER_FUNNEL]);
    for (int i = 0; i < count; i++) notify(ctx, argv[1 + i * WORDS_PER_FUNNEL]);
    return reply_with_rows(ctx, &taken_row, count);
}

static int take(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return funnels(ctx, argv, argc, 1);
}

static int stop(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return funnels(ctx, argv, argc, 0);
}

int load_floor(RedisModuleCtx *ctx, int (*get_api)(const char *name, void *target))
{
#define FUNCTION(result, name, parameters) \
    if (get_api("RedisModule_" #name, &redis.name) != OK) return ERROR;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    /* As in module/load.c. Otherwise, closing the key would call SignalModifiedKey a second
     * time. */
    redis.SetModuleOptions(ctx, NO_IMPLICIT_SIGNAL_MODIFIED);
    pxat = redis.CreateString(NULL, "PXAT", 4);
    if (redis.CreateCommand(ctx, "bench.allow", allow, "write deny-oom fast", 1, 1, 1) != OK) return ERROR;
    if (redis.CreateCommand(ctx, "bench.limit", limit, "write deny-oom fast", 1, 1, 1) != OK) return ERROR;
    if (redis.CreateCommand(ctx, "bench.take", take, "write deny-oom fast", 1, -2, 5) != OK) return ERROR;
    return redis.CreateCommand(ctx, "bench.stop", stop, "write deny-oom fast", 1, -2, 5);
}
