/* The module that funnel-bench loads in addition to the one it measures, compiled
 * when it runs. It adds these commands, and those of floor.c:
 *
 *   BENCH.NOOP key argument...   replies five integers and does nothing else: the
 *                                cost of any module command before its own work
 *   BENCH.MARK                   replies an integer; callgrind, with the option
 *                                --dump-before=bench_mark, writes its count since
 *                                the last mark
 *
 * So one run of a server under callgrind measures any number of commands, without a
 * debugger interface and without symbols of the server. */

#include <stddef.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef int (*command_function)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* The server hands out its functions by name, through the first word of the
 * context; module/abi.h explains it. */
typedef int (*get_api_function)(const char *name, void *target);

static void (*set_module_attributes)(RedisModuleCtx *ctx, const char *name, int version, int api_version);
static int (*create_command)(RedisModuleCtx *ctx, const char *name, command_function function, const char *flags,
                             int first_key, int last_key, int key_step);
static int (*reply_with_array)(RedisModuleCtx *ctx, long length);
static int (*reply_with_number)(RedisModuleCtx *ctx, long long number);

int load_floor(RedisModuleCtx *ctx, get_api_function get_api); /* floor.c */

enum { OK = 0, ERROR = 1, API_VERSION = 1, REPLY_LENGTH = 5 };

static int noop(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv, (void)argc;
    reply_with_array(ctx, REPLY_LENGTH);
    for (int i = 0; i < REPLY_LENGTH; i++) reply_with_number(ctx, i);
    return OK;
}

/* Visible, because callgrind gets this name. */
__attribute__((noinline)) int bench_mark(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    (void)argv, (void)argc;
    return reply_with_number(ctx, 1);
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    get_api_function get_api = *(get_api_function *)(void *)ctx;
    (void)argv, (void)argc;

    if (get_api("RedisModule_SetModuleAttribs", &set_module_attributes) != OK) return ERROR;
    if (get_api("RedisModule_CreateCommand", &create_command) != OK) return ERROR;
    if (get_api("RedisModule_ReplyWithArray", &reply_with_array) != OK) return ERROR;
    if (get_api("RedisModule_ReplyWithLongLong", &reply_with_number) != OK) return ERROR;

    set_module_attributes(ctx, "bench", 1, API_VERSION);
    if (create_command(ctx, "bench.noop", noop, "fast", 1, 1, 1) != OK) return ERROR;
    if (create_command(ctx, "bench.mark", bench_mark, "fast", 0, 0, 0) != OK) return ERROR;
    return load_floor(ctx, get_api);
}
