#include "settings.h"

#include <string.h>
#include <strings.h>

int limit_surplus, has_gcra;

enum { VALUE_COUNT = 2, NOT_SET = -1 };

enum { COMPAT, GCRA, SETTING_COUNT };

/* A setting has two values, whose numbers are 0, the default, and 1. */
static struct setting {
    const char *name;
    const char *values[VALUE_COUNT];
    int *number;
    int argument; /* the number that the load arguments have set, or NOT_SET */
} settings[SETTING_COUNT] = {
    [COMPAT] = {.name = "compat", .values = {"none", "redis-cell"}, .number = &limit_surplus},
    [GCRA] = {.name = "gcra", .values = {"no", "yes"}, .number = &has_gcra},
};

/* Ignores case. Compares lengths because a load argument may go on after a zero byte. */
static int reads(const RedisModuleString *argument, const char *word)
{
    size_t length;
    const char *bytes = redis.StringPtrLen(argument, &length);
    return length == strlen(word) && strcasecmp(bytes, word) == 0;
}

static struct setting *find_setting(const RedisModuleString *argument)
{
    for (int s = 0; s < SETTING_COUNT; s++)
        if (reads(argument, settings[s].name)) return &settings[s];
    return NULL;
}

/* The number of the value that an argument names, or NOT_SET. */
static int find_value(const struct setting *setting, const RedisModuleString *argument)
{
    for (int v = 0; v < VALUE_COUNT; v++)
        if (reads(argument, setting->values[v])) return v;
    return NOT_SET;
}

/* Reads the two words of a load argument, the second of which is NULL if it is missing. */
static int read_argument(RedisModuleCtx *ctx, const RedisModuleString *name, const RedisModuleString *value)
{
    struct setting *setting = find_setting(name);
    if (setting == NULL) {
        redis.Log(
            ctx, "warning",
            "unknown load argument '%s': funnel knows 'compat none', 'compat redis-cell', 'gcra no' and 'gcra yes'",
            redis.StringPtrLen(name, NULL));
        return REDISMODULE_ERR;
    }
    if (value == NULL) {
        redis.Log(ctx, "warning", "load argument '%s' needs a value: '%s' or '%s'", setting->name, setting->values[0],
                  setting->values[1]);
        return REDISMODULE_ERR;
    }
    int number = find_value(setting, value);
    if (number == NOT_SET) {
        redis.Log(ctx, "warning", "load argument '%s' must be '%s' or '%s', not '%s'", setting->name,
                  setting->values[0], setting->values[1], redis.StringPtrLen(value, NULL));
        return REDISMODULE_ERR;
    }
    if (setting->argument != NOT_SET && setting->argument != number) {
        redis.Log(ctx, "warning", "load argument '%s' is given twice, as '%s' and as '%s'", setting->name,
                  setting->values[0], setting->values[1]);
        return REDISMODULE_ERR;
    }
    setting->argument = number;
    return REDISMODULE_OK;
}

int settings_read_load_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    for (int s = 0; s < SETTING_COUNT; s++) settings[s].argument = NOT_SET;
    for (int i = 0; i < argc; i += 2)
        if (read_argument(ctx, argv[i], i + 1 < argc ? argv[i + 1] : NULL) != REDISMODULE_OK) return REDISMODULE_ERR;
    for (int s = 0; s < SETTING_COUNT; s++) *settings[s].number = settings[s].argument == 1;
    return REDISMODULE_OK;
}

static int get_setting(const char *name, void *setting)
{
    (void)name;
    return *((struct setting *)setting)->number;
}

/* Called by the server with the configured value or the default. The server owns the
 * error. */
static int set_setting(const char *name, int number, void *data, RedisModuleString **error)
{
    (void)name;
    const struct setting *setting = data;
    if (setting->argument != NOT_SET && setting->argument != number) {
        static const char reason[] = "it contradicts the load argument of that name: remove one of the two";
        *error = redis.CreateString(NULL, reason, sizeof reason - 1);
        return REDISMODULE_ERR;
    }
    *setting->number = number;
    return REDISMODULE_OK;
}

int settings_register(RedisModuleCtx *ctx)
{
    static const int numbers[VALUE_COUNT] = {0, 1};
    if (redis.RegisterEnumConfig == NULL || redis.LoadConfigs == NULL) return REDISMODULE_OK;
    for (int s = 0; s < SETTING_COUNT; s++) {
        struct setting *setting = &settings[s];
        if (redis.RegisterEnumConfig(ctx, setting->name, *setting->number, REDISMODULE_CONFIG_IMMUTABLE,
                                     setting->values, numbers, VALUE_COUNT, get_setting, set_setting, NULL,
                                     setting) != REDISMODULE_OK) {
            redis.Log(ctx, "warning", "the server does not accept the setting funnel.%s", setting->name);
            return REDISMODULE_ERR;
        }
    }
    return redis.LoadConfigs(ctx); /* the server logs any error */
}

void settings_add_info(RedisModuleInfoCtx *info)
{
    for (int s = 0; s < SETTING_COUNT; s++)
        redis.InfoAddFieldCString(info, settings[s].name, settings[s].values[*settings[s].number]);
}

const char *compat_name(void)
{
    return settings[COMPAT].values[limit_surplus];
}
