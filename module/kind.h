#ifndef FUNNEL_KIND_H
#define FUNNEL_KIND_H

/* What a kind of row does with its key. Each kind has a file with these functions, and a
 * line in the table of key.c. key.h says when each is called. */

#include "abi.h"
#include "call.h"

struct kind_functions {
    void (*read)(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
    void (*write)(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
    void (*replicate)(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
    void (*notify)(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

    /* The last element of the row's reply. */
    struct text (*last_element)(const struct row *row);
};

extern const struct kind_functions funnel_functions; /* funnel.c */
extern const struct kind_functions slots_functions;  /* slots.c */
extern const struct kind_functions quota_functions;  /* quota.c */

/* The functions of a kind whose state is a short string with an expiry: string_key.c. */
void string_key_read(struct row *row, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_write(struct row *row, RedisModuleKey *key, RedisModuleString **words, int64_t now);
void string_key_replicate(const struct row *row, RedisModuleCtx *ctx, RedisModuleString **words);
void string_key_notify(const struct row *row, RedisModuleCtx *ctx, RedisModuleString *name);

/* Frees the string that the calls share. The next call creates it again. */
void string_key_stop(void);

/* The bytes of a string of the server, which owns them and keeps them as long as the string. */
static inline struct text text_of(const RedisModuleString *string)
{
    struct text text;
    text.bytes = redis.StringPtrLen(string, &text.length);
    return text;
}

static inline struct text digits_of(const struct decimal *decimal)
{
    return (struct text){decimal->bytes + decimal->start, decimal->end - decimal->start};
}

#endif
