#include "kinds.h"

/* A funnel is a string: its TAT in decimal. The key expires when the funnel is empty. The last
 * element of the reply is the receipt. */
static struct text funnel_last_element(const struct row *row)
{
    return row->funnel.has_receipt ? digits_of(&row->string.value) : (struct text){"0", 1};
}

/* Slots are a sorted set (slots.c). The last element of the reply says how much longer the holder's
 * slot would have run. */
static struct text slots_last_element(const struct row *row)
{
    return digits_of(&row->slots.held);
}

/* A quota is a string: "used:", then the sum that is used, in decimal. The key expires when the
 * period ends. The server has to look that expiry up, so it is asked only if the key exists. */
static void quota_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words,
                       int64_t now)
{
    string_key_read(row, ctx, key, words, now);
    if (row->stored == STORED_OF_KIND) row->string.stored_expiry = redis.GetAbsExpire(key);
}

/* The receipt: the end of the period that counted the call. */
static struct text quota_last_element(const struct row *row)
{
    return digits_of(&row->quota.until);
}

const struct kind_functions kinds[] = {
    [FUNNEL] = {string_key_read, string_key_write, string_key_replicate, string_key_notify, funnel_last_element},
    [SLOTS] = {slots_read, slots_write, slots_replicate, slots_notify, slots_last_element},
    [QUOTA] = {quota_read, string_key_write, string_key_replicate, string_key_notify, quota_last_element},
};
_Static_assert(sizeof kinds / sizeof kinds[0] == KIND_COUNT, "each kind needs its functions");
