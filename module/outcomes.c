#include "outcomes.h"

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

int reply_with_error(RedisModuleCtx *ctx, const struct outcome *outcome)
{
    reply_counts[VERDICT_ERROR]++;
    return redis.ReplyWithError(ctx, outcome->message);
}
