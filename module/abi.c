#include "abi.h"

struct redis_api redis;

/* The first word of a module context points to this function. It stores the function of that name
 * at target, and returns REDISMODULE_ERR if the server has none. */
typedef int (*get_api_function)(const char *name, void *target);

const char *find_functions(RedisModuleCtx *ctx)
{
    get_api_function get_api = *(get_api_function *)(void *)ctx;

#define FUNCTION(result, name, parameters) \
    if (get_api("RedisModule_" #name, &redis.name) != REDISMODULE_OK) redis.name = NULL;
    REQUIRED_FUNCTIONS(FUNCTION)
    OPTIONAL_FUNCTIONS(FUNCTION)
#undef FUNCTION

#define FUNCTION(result, name, parameters) \
    if (redis.name == NULL) return #name;
    REQUIRED_FUNCTIONS(FUNCTION)
#undef FUNCTION

    return NULL;
}
