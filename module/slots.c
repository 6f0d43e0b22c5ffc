#include "slots.h"

#include "key.h"

enum { MOST_REMOVED = 1000, NANOSECONDS_PER_MILLISECOND = 1000000 };

static const double everything = __builtin_inf();

/* The score in whole milliseconds, rounded up, from 0 to 2^63-1: other commands may have written
 * any. */
static int64_t milliseconds_of(double score)
{
    if (!(score > 0)) return 0; /* and NaN, of a RESTORE */
    if (score >= 0x1p63) return INT64_MAX;
    int64_t whole = (int64_t)score;
    return whole + ((double)whole < score);
}

/* Members that have ended by now, and those that run, are two ranges of scores. */
static void first_ended(RedisModuleKey *key, int64_t now)
{
    redis.ZsetFirstInScoreRange(key, -everything, (double)now, 0, 0);
}

static void last_running(RedisModuleKey *key, int64_t now)
{
    redis.ZsetLastInScoreRange(key, (double)now, everything, 1, 0);
}

/* Steps through the range that was begun, at most so many times. Returns how many members were
 * passed, and whether the range has ended. */
static uint64_t count(RedisModuleKey *key, uint64_t most, int (*step)(RedisModuleKey *key), int *ended)
{
    uint64_t passed = 0;
    while (passed < most && !redis.ZsetRangeEndReached(key)) {
        passed++;
        step(key);
    }
    *ended = redis.ZsetRangeEndReached(key);
    redis.ZsetRangeStop(key);
    return passed;
}

/* How many slots run, or limit + 1 if there are more. The server cannot count a range, so this
 * steps through it from both ends, in turns of twice the length each time: the cost depends on the
 * shorter one of those that have ended and those that run, and no more than limit + 1 of these. */
static int64_t count_running(RedisModuleKey *key, int64_t limit, int64_t now, int64_t *some_ended)
{
    uint64_t most = (uint64_t)limit + 1, length = redis.ValueLength(key);
    int ended;
    for (uint64_t turn = 1;; turn *= 2) {
        first_ended(key, now);
        uint64_t number = count(key, turn, redis.ZsetRangeNext, &ended);
        *some_ended = number > 0;
        if (ended) return (int64_t)(length - number < most ? length - number : most);
        last_running(key, now);
        number = count(key, turn < most ? turn : most, redis.ZsetRangePrev, &ended);
        if (ended || number == most) return (int64_t)number;
    }
}

/* When the slot ends that is first in the direction of the step, the holder's own apart. */
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

void slots_read(struct funnel *row, RedisModuleKey *key, RedisModuleString *holder, int64_t nanoseconds)
{
    const int64_t now = nanoseconds / NANOSECONDS_PER_MILLISECOND;
    struct slots *slots = &row->slots;
    *slots = (struct slots){.limit = slots->limit};
    int type = redis.KeyType(key);
    row->stored = type == REDISMODULE_KEYTYPE_EMPTY ? STORED_NOTHING : STORED_OTHER_TYPE;
    if (type != REDISMODULE_KEYTYPE_ZSET) return;
    row->stored = STORED_VALUE;

    double score;
    if (redis.ZsetScore(key, holder, &score) == REDISMODULE_OK && score > (double)now)
        slots->own = milliseconds_of(score);
    slots->running = count_running(key, slots->limit, now, &slots->some_ended);
    if (slots->running >= slots->limit) {
        redis.ZsetFirstInScoreRange(key, (double)now, everything, 1, 0);
        slots->first = end_of_other(key, holder, redis.ZsetRangeNext);
    }
    last_running(key, now);
    slots->last = end_of_other(key, holder, redis.ZsetRangePrev);
}

/* Removes the members that ended first. The strings belong to this function. */
static int64_t remove_ended(RedisModuleKey *key, int64_t now)
{
    RedisModuleString *members[MOST_REMOVED];
    int64_t number = 0;
    first_ended(key, now);
    while (number < MOST_REMOVED && !redis.ZsetRangeEndReached(key)) {
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

/* When the last of all members ends: of those that run, or of those that have ended if none runs. */
static int64_t last_end(RedisModuleKey *key, const struct funnel *row)
{
    const struct slots *slots = &row->slots;
    if (row->write == WRITE_TAT && row->expiry_milliseconds > slots->last) return row->expiry_milliseconds;
    if (slots->last > 0) return slots->last;
    double score = 0;
    redis.ZsetLastInScoreRange(key, -everything, everything, 0, 0);
    if (!redis.ZsetRangeEndReached(key)) redis.FreeString(NULL, redis.ZsetRangeCurrentElement(key, &score));
    redis.ZsetRangeStop(key);
    return milliseconds_of(score);
}

void slots_write(RedisModuleKey *key, struct funnel *row, RedisModuleString *holder, int64_t nanoseconds)
{
    struct slots *slots = &row->slots;
    if (row->write == WRITE_TAT)
        redis.ZsetAdd(key, (double)row->expiry_milliseconds, holder, NULL);
    else
        redis.ZsetRem(key, holder, NULL);
    /* The server deletes the key with its last member. */
    if (slots->some_ended && redis.ValueLength(key) > 0)
        slots->removed = remove_ended(key, nanoseconds / NANOSECONDS_PER_MILLISECOND);
    slots->change = KEY_GONE;
    if (redis.ValueLength(key) == 0) return;
    /* No expiry where the last end is 2^63 or more. A score below is at most 2^63-1024, not INT64_MAX. */
    int64_t last = last_end(key, row);
    slots->expiry = last < INT64_MAX ? last : REDISMODULE_NO_EXPIRE;
    slots->change = EXPIRY_KEPT;
    if (redis.GetAbsExpire(key) == slots->expiry) return;
    redis.SetAbsExpire(key, slots->expiry);
    slots->change = slots->expiry == REDISMODULE_NO_EXPIRE ? EXPIRY_REMOVED : EXPIRY_SET;
}

void slots_replicate(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *row, RedisModuleString *holder)
{
    const struct slots *slots = &row->slots;
    if (row->write == WRITE_TAT) {
        struct text end = digits_of(&row->expiry);
        redis.Replicate(ctx, "ZADD", "sbs", name, end.bytes, end.length, holder);
    } else {
        redis.Replicate(ctx, "ZREM", "ss", name, holder);
    }
    if (slots->removed > 0) redis.Replicate(ctx, "ZREMRANGEBYRANK", "scl", name, "0", (long long)slots->removed - 1);
    if (slots->change == EXPIRY_SET) redis.Replicate(ctx, "PEXPIREAT", "sl", name, (long long)slots->expiry);
    if (slots->change == EXPIRY_REMOVED) redis.Replicate(ctx, "PERSIST", "s", name);
}

void slots_notify(RedisModuleCtx *ctx, RedisModuleString *name, const struct funnel *row)
{
    const struct slots *slots = &row->slots;
    redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_ZSET, row->write == WRITE_TAT ? "zadd" : "zrem", name);
    if (slots->removed > 0) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_ZSET, "zremrangebyrank", name);
    if (slots->change == KEY_GONE) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
    if (slots->change == EXPIRY_SET) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "expire", name);
    if (slots->change == EXPIRY_REMOVED) redis.NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "persist", name);
}
