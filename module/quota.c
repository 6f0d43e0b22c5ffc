#include "kind.h"

/* A quota is a string: "used:", then the sum that is used, in decimal. The key expires when the period ends. */

/* Asks for the expiry only if the key exists, because the server has to look it up. */
static void read_quota(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                       int64_t now)
{
    string_key_read(row, ctx, key, words, now);
    if (row->stored == STORED_OF_KIND) row->string.stored_expiry = redis.GetAbsExpire(key);
}

/* The receipt. */
static struct text quota_last_element(const struct row *row)
{
    return digits_of(&row->quota.until);
}

const struct kind_functions quota_functions = {read_quota, string_key_write, string_key_replicate, string_key_notify,
                                               quota_last_element};
