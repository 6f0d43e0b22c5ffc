#include "funnels.h"

#include "clock.h"
#include "compat.h"
#include "key.h"
#include "reply.h"

enum { WORDS_PER_FUNNEL = 5 };

/* The name of a funnel's key among the words of the command. */
static RedisModuleString *name_of(RedisModuleString **argv, uint32_t funnel)
{
    return argv[1 + WORDS_PER_FUNNEL * funnel];
}

static void read_arguments(struct funnels_call *call, RedisModuleString **argv, int argc)
{
    call->length = (uint32_t)(argc - 1) / WORDS_PER_FUNNEL;
    call->limit_surplus = limit_surplus;
    for (uint32_t i = 0; i < call->length; i++) {
        RedisModuleString **words = argv + 1 + WORDS_PER_FUNNEL * i;
        struct funnel *funnel = &call->funnels[i];
        funnel->key = text_of(words[0]);
        funnel->capacity = text_of(words[1]);
        funnel->count = text_of(words[2]);
        funnel->period = text_of(words[3]);
        funnel->quantity = text_of(words[4]);
    }
    int has_max_wait = (argc - 1) % WORDS_PER_FUNNEL == 1;
    call->max_wait = has_max_wait ? text_of(argv[argc - 1]) : (struct text){NULL, 0};
}

static void reply_with_decimal(RedisModuleCtx *ctx, const struct decimal *decimal)
{
    redis.ReplyWithStringBuffer(ctx, decimal->bytes + decimal->start, decimal->end - decimal->start);
}

static void reply_with_row(RedisModuleCtx *ctx, const struct row *row)
{
    redis.ReplyWithArray(ctx, 5);
    redis.ReplyWithLongLong(ctx, row->limited);
    redis.ReplyWithLongLong(ctx, row->limit);
    redis.ReplyWithLongLong(ctx, row->remaining);
    reply_with_decimal(ctx, &row->wait);
    reply_with_decimal(ctx, &row->reset_after);
}

static void reply_with_decisions(RedisModuleCtx *ctx, const struct funnels_call *call)
{
    redis.ReplyWithArray(ctx, 3);
    redis.ReplyWithLongLong(ctx, call->limited);
    reply_with_decimal(ctx, &call->wait);
    redis.ReplyWithArray(ctx, call->length);
    for (uint32_t i = 0; i < call->length; i++) reply_with_row(ctx, &call->rows[i]);
}

/* Two crossings into Go, whatever the number of funnels: all arguments, then all
 * decisions. The way there is that of CL.THROTTLE (throttle.c).
 *
 * The keys are opened together, by one mode, before any is written, and closed before
 * anybody is told. */
static int answer(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, enum funnels_command command)
{
    int words = argc - 1, surplus = words % WORDS_PER_FUNNEL;
    if (words < WORDS_PER_FUNNEL || words / WORDS_PER_FUNNEL > MOST_FUNNELS || surplus > (command == RESERVE))
        return redis.WrongArity(ctx);

    /* Not cleared: every field that is read has been set before. */
    struct funnels_call call;
    call.command = command;
    read_arguments(&call, argv, argc);
    go_parse_funnels(&call);
    if (call.outcome.verdict != VERDICT_PARSED) return reply_with_error(ctx, &call.outcome);

    RedisModuleKey *keys[MOST_FUNNELS];
    int mode = command == PEEK ? REDISMODULE_READ : REDISMODULE_READ | REDISMODULE_WRITE;
    for (uint32_t i = 0; i < call.length; i++) keys[i] = redis.OpenKey(ctx, name_of(argv, i), mode);
    for (uint32_t i = 0; i < call.length; i++) key_read(&call.funnels[i], keys[i]);
    call.now = clock_nanoseconds();
    go_decide_funnels(&call);
    int failed = call.outcome.verdict == VERDICT_ERROR, writes = !failed && call.writes > 0;
    for (uint32_t i = 0; i < call.length; i++) {
        if (writes) key_write(keys[i], &call.funnels[i]);
        redis.CloseKey(keys[i]);
    }
    if (failed) return reply_with_error(ctx, &call.outcome);
    if (writes) {
        for (uint32_t i = 0; i < call.length; i++) key_replicate(ctx, name_of(argv, i), &call.funnels[i]);
        for (uint32_t i = 0; i < call.length; i++) key_notify(ctx, name_of(argv, i), &call.funnels[i]);
    }
    reply_counts[call.outcome.verdict]++;
    reply_with_decisions(ctx, &call);
    return REDISMODULE_OK;
}

int reserve_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return answer(ctx, argv, argc, RESERVE);
}

int peek_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return answer(ctx, argv, argc, PEEK);
}

int charge_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return answer(ctx, argv, argc, CHARGE);
}

int refund_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return answer(ctx, argv, argc, REFUND);
}
