#include "throttle.h"

#include "clock.h"
#include "compat.h"
#include "key.h"
#include "reply.h"

static void read_arguments(struct throttle_call *call, RedisModuleString **argv, int argc)
{
    call->funnel.capacity = text_of(argv[2]);
    call->funnel.count = text_of(argv[3]);
    call->funnel.period = text_of(argv[4]);
    call->funnel.quantity = argc == 6 ? text_of(argv[5]) : (struct text){"1", 1};
    call->limit_surplus = limit_surplus;
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
    if (call.outcome.verdict != VERDICT_PARSED) return reply_with_error(ctx, &call.outcome);

    /* Opened for writing even though many calls write nothing: one lookup
     * serves both, and the module has turned the implicit "key was modified"
     * off, so closing the key leaves no trace. */
    RedisModuleString *name = argv[1];
    RedisModuleKey *key = redis.OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
    key_read(&call.funnel, key);
    call.now = clock_nanoseconds();
    go_decide(&call);
    int allowed = call.outcome.verdict == VERDICT_ALLOWED;
    if (allowed) key_write(key, &call.funnel);
    redis.CloseKey(key);
    if (call.outcome.verdict == VERDICT_ERROR) return reply_with_error(ctx, &call.outcome);

    if (allowed) {
        key_replicate(ctx, name, &call.funnel);
        key_notify(ctx, name, &call.funnel);
    }
    reply_counts[call.outcome.verdict]++;
    redis.ReplyWithArray(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) redis.ReplyWithLongLong(ctx, call.reply[i]);
    return REDISMODULE_OK;
}
