#include "kinds.h"

/* Slots are a sorted set: each member is a holder, its score the Unix time in milliseconds at which
 * the slot ends. A slot runs until the instant of the call, in whole milliseconds, reaches its end.
 * The key expires with the last end. */

enum {
    HOLDER_WORD = 4,
    MAX_STEPS = 128,    /* turns up to here take some 500 steps, about as long as asking the server */
    MAX_REMOVED = 1000, /* bounds how long a call keeps the server from serving others */
    NANOSECONDS_PER_MILLISECOND = 1000000,
};

static const double everything = __builtin_inf();

/* Returns a score in whole milliseconds, rounded up, from 0 to 2^63-1. The score may be any
 * number, because other commands can write to the key. */
static int64_t milliseconds_of(double score)
{
    if (!(score > 0)) return 0; /* or it is NaN, which RESTORE can store */
    if (score >= 0x1p63) return INT64_MAX;
    int64_t whole = (int64_t)score;
    return whole + ((double)whole < score);
}

/* first_ended begins the range of slots that have ended, at the slot that ended first. last_running
 * begins the range of slots that run, at the slot that ends last. */
static void first_ended(RedisModuleKey *key, int64_t now)
{
    redis.ZsetFirstInScoreRange(key, -everything, (double)now, 0, 0);
}

static void last_running(RedisModuleKey *key, int64_t now)
{
    redis.ZsetLastInScoreRange(key, (double)now, everything, 1, 0);
}

/* Steps through the range that was begun, past at most max members, and ends the range. Returns how
 * many members it has passed, and sets is_all if the range has no others. */
static uint64_t count(RedisModuleKey *key, uint64_t max, int (*step)(RedisModuleKey *key), int *is_all)
{
    uint64_t passed = 0;
    while (passed < max && !redis.ZsetRangeEndReached(key)) {
        passed++;
        step(key);
    }
    *is_all = redis.ZsetRangeEndReached(key);
    redis.ZsetRangeStop(key);
    return passed;
}

/* Lets the server count the members that have ended, and returns their number, or -1 if the server
 * refuses. The key stays open meanwhile, which is safe: ZCOUNT only reads the key. It cannot find
 * the key expired, because the server's clock stands still within a command, and the key existed
 * when it was opened. */
static int64_t ask_ended(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now)
{
    RedisModuleCallReply *reply = redis.Call(ctx, "ZCOUNT", "scl", name, "-inf", (long long)now);
    if (reply == NULL) return -1;
    int64_t ended = redis.CallReplyType(reply) == REDISMODULE_REPLY_INTEGER ? redis.CallReplyInteger(reply) : -1;
    redis.FreeCallReply(reply);
    return ended;
}

/* Returns how many slots run, or limit + 1 if more do. In most sets, few slots run or few have
 * ended. So this function counts both, in turns that get twice as long each time, until it has
 * counted all that run or all that have ended. After turns of MAX_STEPS it asks the server. That
 * costs at least a few hundred steps, but grows only with the logarithm of the set's length. */
static int64_t count_running(struct slots *slots, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name,
                             int64_t now)
{
    uint64_t max = (uint64_t)slots->limit + 1, length = redis.ValueLength(key);
    for (uint64_t turn = 1;; turn *= 2) {
        int is_all;
        if (turn == 2 * MAX_STEPS) {
            int64_t ended = ask_ended(ctx, name, now);
            uint64_t running = length - (uint64_t)ended;
            if (ended >= 0) return (int64_t)(running < max ? running : max);
        }
        first_ended(key, now);
        uint64_t number = count(key, turn, redis.ZsetRangeNext, &is_all);
        slots->some_ended = number > 0;
        if (is_all) return (int64_t)(length - number < max ? length - number : max);
        last_running(key, now);
        number = count(key, turn < max ? turn : max, redis.ZsetRangePrev, &is_all);
        if (is_all || number == max) return (int64_t)number;
    }
}

/* Returns the end of the first slot in the range that belongs to another holder, or 0 if there is
 * none, and ends the range. */
static int64_t end_of_other(RedisModuleKey *key, RedisModuleString *holder, int (*step)(RedisModuleKey *key))
{
    int64_t end = 0;
    while (end == 0 && !redis.ZsetRangeEndReached(key)) {
        double score = 0;
        RedisModuleString *member = redis.ZsetRangeCurrentElement(key, &score); /* freed here */
        if (redis.StringCompare(member, holder) != 0) end = milliseconds_of(score);
        redis.FreeString(NULL, member);
        step(key);
    }
    redis.ZsetRangeStop(key);
    return end;
}

void slots_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                int64_t nanoseconds)
{
    const int64_t now = nanoseconds / NANOSECONDS_PER_MILLISECOND;
    RedisModuleString *holder = words[HOLDER_WORD];
    struct slots *slots = &row->slots;
    slots->own = slots->running = slots->first = slots->last = 0;
    slots->some_ended = slots->removed = 0;
    int type = redis.KeyType(key);
    row->stored = type == REDISMODULE_KEYTYPE_EMPTY ? STORED_NOTHING : STORED_OTHER_TYPE;
    if (type != REDISMODULE_KEYTYPE_ZSET) return;
    row->stored = STORED_OF_KIND;

    double score;
    if (redis.ZsetScore(key, holder, &score) == REDISMODULE_OK && score > (double)now)
        slots->own = milliseconds_of(score);
    slots->running = count_running(slots, ctx, key, words[0], now);
    if (slots->running >= slots->limit) {
        redis.ZsetFirstInScoreRange(key, (double)now, everything, 1, 0);
        slots->first = end_of_other(key, holder, redis.ZsetRangeNext);
    }
    last_running(key, now);
    slots->last = end_of_other(key, holder, redis.ZsetRangePrev);
}

/* Removes the members that ended first, at most MAX_REMOVED, and returns how many. The strings of
 * the members belong to this function, which frees them. */
static int64_t remove_ended(RedisModuleKey *key, int64_t now)
{
    RedisModuleString *members[MAX_REMOVED];
    int64_t number = 0;
    first_ended(key, now);
    while (number < MAX_REMOVED && !redis.ZsetRangeEndReached(key)) {
        members[number++] = redis.ZsetRangeCurrentElement(key, NULL);
        redis.ZsetRangeNext(key);
    }
    redis.ZsetRangeStop(key);
    for (int64_t i = 0; i < number; i++) {
        redis.ZsetRem(key, members[i], NULL);
        redis.FreeString(NULL, members[i]);
    }
    return number;
}

/* Returns the latest end of all members. If no slot runs, that instant has passed. */
static int64_t last_end(const struct row *row, RedisModuleKey *key)
{
    const struct slots *slots = &row->slots;
    if (row->write == WRITE_STATE && slots->end_milliseconds > slots->last) return slots->end_milliseconds;
    if (slots->last > 0) return slots->last;
    double score = 0;
    redis.ZsetLastInScoreRange(key, -everything, everything, 0, 0);
    if (!redis.ZsetRangeEndReached(key)) redis.FreeString(NULL, redis.ZsetRangeCurrentElement(key, &score));
    redis.ZsetRangeStop(key);
    return milliseconds_of(score);
}

/* Writes or removes the holder's slot. Also removes slots that have ended, up to MAX_REMOVED. */
void slots_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t nanoseconds)
{
    struct slots *slots = &row->slots;
    if (row->write == WRITE_STATE)
        redis.ZsetAdd(key, (double)slots->end_milliseconds, words[HOLDER_WORD], NULL);
    else
        redis.ZsetRem(key, words[HOLDER_WORD], NULL);
    /* The server deletes the key with its last member. */
    if (slots->some_ended && redis.ValueLength(key) > 0)
        slots->removed = remove_ended(key, nanoseconds / NANOSECONDS_PER_MILLISECOND);
    slots->change = KEY_GONE;
    if (redis.ValueLength(key) == 0) return;
    /* INT64_MAX means 2^63 or more, too late for an expiry: a score below 2^63 is at most
     * 2^63-1024. */
    int64_t last = last_end(row, key);
    slots->expiry = last < INT64_MAX ? last : REDISMODULE_NO_EXPIRE;
    slots->change = EXPIRY_KEPT;
    if (redis.GetAbsExpire(key) == slots->expiry) return;
    redis.SetAbsExpire(key, slots->expiry);
    slots->change = slots->expiry == REDISMODULE_NO_EXPIRE ? EXPIRY_REMOVED : EXPIRY_SET;
}

void slots_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    RedisModuleString *name = words[0], *holder = words[HOLDER_WORD];
    const struct slots *slots = &row->slots;
    if (row->write == WRITE_STATE) {
        struct text end = digits_of(&slots->end);
        redis.Replicate(ctx, "ZADD", "sbs", name, end.bytes, end.length, holder);
    } else {
        redis.Replicate(ctx, "ZREM", "ss", name, holder);
    }
    if (slots->removed > 0) redis.Replicate(ctx, "ZREMRANGEBYRANK", "scl", name, "0", (long long)slots->removed - 1);
    if (slots->change == EXPIRY_SET) redis.Replicate(ctx, "PEXPIREAT", "sl", name, (long long)slots->expiry);
    if (slots->change == EXPIRY_REMOVED) redis.Replicate(ctx, "PERSIST", "s", name);
}

void slots_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    const struct slots *slots = &row->slots;
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_ZSET, row->write == WRITE_STATE ? "zadd" : "zrem", name);
    if (slots->removed > 0) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_ZSET, "zremrangebyrank", name);
    if (slots->change == KEY_GONE) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
    if (slots->change == EXPIRY_SET) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
    if (slots->change == EXPIRY_REMOVED) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "persist", name);
}
