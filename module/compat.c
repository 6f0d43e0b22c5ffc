#include "compat.h"

#include <string.h>
#include <strings.h>

int compat_surplus;

/* The index of each name is the surplus that it selects. */
static const char *const names[] = {"none", "redis-cell"};
enum { NAME_COUNT = 2 };

const char *compat_name(void)
{
    return names[compat_surplus];
}

/* Ignores case. Compares lengths because a load argument may go on after a zero byte. */
static int is_word(const RedisModuleString *argument, const char *word)
{
    size_t length;
    const char *bytes = redis.StringPtrLen(argument, &length);
    return length == strlen(word) && strcasecmp(bytes, word) == 0;
}

int compat_read(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    compat_surplus = 0;
    for (int i = 0; i < argc; i += 2) {
        if (!is_word(argv[i], "compat")) {
            redis.Log(ctx, "warning", "unknown load argument '%s': funnel knows 'compat none' and 'compat redis-cell'",
                      redis.StringPtrLen(argv[i], NULL));
            return REDISMODULE_ERR;
        }
        int surplus = 0;
        while (surplus < NAME_COUNT && !(i + 1 < argc && is_word(argv[i + 1], names[surplus]))) surplus++;
        if (surplus == NAME_COUNT) {
            redis.Log(ctx, "warning", "load argument 'compat' must be 'none' or 'redis-cell', not '%s'",
                      i + 1 < argc ? redis.StringPtrLen(argv[i + 1], NULL) : "");
            return REDISMODULE_ERR;
        }
        if (i > 0 && surplus != compat_surplus) {
            redis.Log(ctx, "warning", "load argument 'compat' is given twice, as 'none' and as 'redis-cell'");
            return REDISMODULE_ERR;
        }
        compat_surplus = surplus;
    }
    return REDISMODULE_OK;
}
