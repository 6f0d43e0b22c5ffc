#include "reply.h"

#include "kinds.h"

unsigned long long reply_counts[VERDICT_COUNT];

void reply_add_counts(RedisModuleInfoCtx *info)
{
    static const struct {
        const char *name;
        enum verdict verdict;
    } fields[] = {
        {"allowed", VERDICT_ALLOWED}, {"limited", VERDICT_LIMITED},   {"peeked", VERDICT_PEEKED},
        {"charged", VERDICT_CHARGED}, {"refunded", VERDICT_REFUNDED}, {"errors", VERDICT_ERROR},
    };
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++)
        redis.InfoAddFieldULongLong(info, fields[f].name, reply_counts[fields[f].verdict]);
}

static void reply_with_decimal(RedisModuleCtx *ctx, const struct decimal *decimal)
{
    redis.ReplyWithStringBuffer(ctx, decimal->bytes + decimal->start, decimal->end - decimal->start);
}

static void reply_with_row(RedisModuleCtx *ctx, const struct row_reply *reply, const struct row *row)
{
    redis.ReplyWithArray(ctx, 6);
    redis.ReplyWithLongLong(ctx, reply->limited);
    redis.ReplyWithLongLong(ctx, reply->limit);
    redis.ReplyWithLongLong(ctx, reply->remaining);
    reply_with_decimal(ctx, &reply->wait);
    reply_with_decimal(ctx, &reply->reset_after);
    struct text last = key_last_element(row);
    redis.ReplyWithStringBuffer(ctx, last.bytes, last.length);
}

int reply(RedisModuleCtx *ctx, const struct call *call)
{
    reply_counts[call->verdict]++;
    if (call->verdict == VERDICT_ERROR) return redis.ReplyWithError(ctx, call->message);
    if (call->form == IN_SECONDS) {
        redis.ReplyWithArray(ctx, SECONDS_LENGTH);
        for (int i = 0; i < SECONDS_LENGTH; i++) redis.ReplyWithLongLong(ctx, call->seconds[i]);
        return REDISMODULE_OK;
    }
    redis.ReplyWithArray(ctx, call->operation == TAKE ? 4 : 3);
    redis.ReplyWithLongLong(ctx, call->limited);
    reply_with_decimal(ctx, &call->wait);
    redis.ReplyWithArray(ctx, call->length);
    for (uint32_t i = 0; i < call->length; i++) reply_with_row(ctx, &call->replies[i], &call->rows[i]);
    if (call->operation == TAKE) redis.ReplyWithLongLong(ctx, call->taken);
    return REDISMODULE_OK;
}
