#include "compat.h"

#include <string.h>
#include <strings.h>

int limit_surplus;

/* The modes, and how much larger the limit is than the capacity argument. */
static const char *compat_names[] = {"none", "redis-cell"};
static const int compat_surplus[] = {0, 1};
enum { COMPAT_COUNT = sizeof compat_surplus / sizeof compat_surplus[0] };

/* The surplus that the load arguments have set, or NOT_SET. */
static int compat_argument;
enum { NOT_SET = -1 };

/* Ignores case. Compares lengths because a load argument may go on after a zero byte. */
static int reads(const RedisModuleString *argument, const char *word)
{
    size_t length;
    const char *bytes = redis.StringPtrLen(argument, &length);
    return length == strlen(word) && strcasecmp(bytes, word) == 0;
}

/* The surplus of the compat mode that an argument names, or NOT_SET. */
static int find_compat(const RedisModuleString *argument)
{
    for (int c = 0; c < COMPAT_COUNT; c++)
        if (reads(argument, compat_names[c])) return compat_surplus[c];
    return NOT_SET;
}

static int get_compat(const char *name, void *data)
{
    (void)name, (void)data;
    return limit_surplus;
}

/* Called by the server with the configured value or the default. The server owns the
 * error. */
static int set_compat(const char *name, int value, void *data, RedisModuleString **error)
{
    (void)name, (void)data;
    if (compat_argument != NOT_SET && value != compat_argument) {
        static const char reason[] = "it contradicts the load argument 'compat': remove one of the two";
        *error = redis.CreateString(NULL, reason, sizeof reason - 1);
        return REDISMODULE_ERR;
    }
    limit_surplus = value;
    return REDISMODULE_OK;
}

int compat_read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    compat_argument = NOT_SET;
    for (int i = 0; i < argc; i += 2) {
        if (!reads(argv[i], "compat")) {
            redis.Log(ctx, "warning", "unknown load argument '%s': funnel knows 'compat none' and 'compat redis-cell'",
                      redis.StringPtrLen(argv[i], NULL));
            return REDISMODULE_ERR;
        }
        if (i + 1 == argc) {
            redis.Log(ctx, "warning", "load argument 'compat' needs a value: 'none' or 'redis-cell'");
            return REDISMODULE_ERR;
        }
        int surplus = find_compat(argv[i + 1]);
        if (surplus == NOT_SET) {
            redis.Log(ctx, "warning", "load argument 'compat' must be 'none' or 'redis-cell', not '%s'",
                      redis.StringPtrLen(argv[i + 1], NULL));
            return REDISMODULE_ERR;
        }
        if (compat_argument != NOT_SET && compat_argument != surplus) {
            redis.Log(ctx, "warning", "load argument 'compat' is given twice, as 'none' and as 'redis-cell'");
            return REDISMODULE_ERR;
        }
        compat_argument = surplus;
    }
    limit_surplus = compat_argument == NOT_SET ? 0 : compat_argument;
    return REDISMODULE_OK;
}

int compat_register_setting(RedisModuleCtx *ctx)
{
    if (redis.RegisterEnumConfig == NULL || redis.LoadConfigs == NULL) return REDISMODULE_OK;
    if (redis.RegisterEnumConfig(ctx, "compat", limit_surplus, REDISMODULE_CONFIG_IMMUTABLE, compat_names,
                                 compat_surplus, COMPAT_COUNT, get_compat, set_compat, NULL, NULL) != REDISMODULE_OK) {
        redis.Log(ctx, "warning", "the server does not accept the setting funnel.compat");
        return REDISMODULE_ERR;
    }
    return redis.LoadConfigs(ctx); /* the server logs any error */
}

const char *compat_name(void)
{
    return compat_names[limit_surplus];
}
