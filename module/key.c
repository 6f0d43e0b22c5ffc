#include "key.h"

#include "kind.h"

static const struct kind_functions *const kinds[] = {
    [FUNNEL] = &funnel_functions,
    [SLOTS] = &slots_functions,
};

void key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    kinds[row->kind]->read(row, ctx, key, words, now);
}

void key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind]->write(row, key, words, now);
}

void key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words)
{
    if (row->write != WRITE_NOTHING) kinds[row->kind]->replicate(row, ctx, words);
}

void key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name)
{
    if (row->write == WRITE_NOTHING) return;
    redis.SignalModifiedKey(ctx, name);
    kinds[row->kind]->notify(row, ctx, name);
}

struct text key_reply(const struct row *row)
{
    return kinds[row->kind]->reply(row);
}
