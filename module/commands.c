#include "commands.h"

#include "command_info.h"
#include "debug.h"
#include "funnels.h"
#include "throttle.h"

static const struct command_info_version info_version = {
    .version = 1,
    .history_entry_size = sizeof(struct history_entry),
    .key_spec_size = sizeof(struct key_spec),
    .argument_size = sizeof(struct command_argument),
};

/* Arrays end with an entry of zeroes. The server copies all of it, and writes to none. */

#define KEYS(access, last, step)                                                    \
    (struct key_spec[])                                                             \
    {                                                                               \
        {.flags = (access) | KEY_ACCESS,                                            \
         .begin_search = BEGIN_SEARCH_INDEX,                                        \
         .begin.index = 1,                                                          \
         .find_keys = FIND_KEYS_RANGE,                                              \
         .find.range = {.last_key = (last), .key_step = (step), .limit = 0}},       \
        {0},                                                                        \
    }
enum { KEYS_WRITTEN = KEY_READ_WRITE | KEY_UPDATE, KEYS_READ = KEY_READ_ONLY };

#define FUNNEL_WORDS(flags_of_quantity)                                                               \
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},                                       \
    {.name = "capacity", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                             \
    {.name = "count", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                                \
    {.name = "period", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},                                \
    {.name = "quantity", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = flags_of_quantity}, \
    {0}

static struct command_argument one_funnel[] = {FUNNEL_WORDS(ARGUMENT_OPTIONAL)};
static struct command_argument funnel_words[] = {FUNNEL_WORDS(0)};

#define FUNNELS                                                                                                   \
    {.name = "funnel", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .flags = ARGUMENT_MULTIPLE,                  \
     .subarguments = funnel_words}

static struct command_argument funnels[] = {FUNNELS, {0}};
static struct command_argument funnels_and_wait[] = {
    FUNNELS,
    {.name = "max_wait", .type = ARGUMENT_DOUBLE, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};

#define CATEGORIES(builtin) .categories = builtin " throttle", .builtin_categories = builtin

/* Whatever is known of a command stands in this table. */
static const struct command {
    const char *name;
    RedisModuleCmdFunc function;
    const char *flags;
    int last_key, key_step;
    const char *categories, *builtin_categories; /* of ACLs: with ours, and without */
    struct RedisModuleCommandInfo info;
} commands[] = {
    {
        .name = "cl.throttle",
        .function = throttle_command,
        .flags = "write deny-oom fast",
        .last_key = 1,
        .key_step = 1,
        CATEGORIES("write fast"),
        .info = {.version = &info_version,
                 .summary = "Pours tokens into a funnel that leaks at a fixed rate, or says when they would fit.",
                 .complexity = "O(1)",
                 .since = "0.1.0",
                 .arity = -5,
                 .key_specs = KEYS(KEYS_WRITTEN, 0, 1),
                 .arguments = one_funnel},
    },
    {
        .name = "cl.reserve",
        .function = reserve_command,
        .flags = "write deny-oom fast",
        .last_key = -2,
        .key_step = 5,
        CATEGORIES("write fast"),
        .info = {.version = &info_version,
                 .summary = "Pours tokens into all of the funnels or into none, or reserves a later turn in one.",
                 .complexity = "O(N) where N is the number of funnels, at most 64.",
                 .since = "0.1.0",
                 .arity = -6,
                 .key_specs = KEYS(KEYS_WRITTEN, -2, 5),
                 .arguments = funnels_and_wait},
    },
    {
        .name = "cl.peek",
        .function = peek_command,
        .flags = "readonly fast",
        .last_key = -1,
        .key_step = 5,
        CATEGORIES("read fast"),
        .info = {.version = &info_version,
                 .summary = "Says whether tokens would fit into all of the funnels, and pours none.",
                 .complexity = "O(N) where N is the number of funnels, at most 64.",
                 .since = "0.1.0",
                 .arity = -6,
                 .key_specs = KEYS(KEYS_READ, -1, 5),
                 .arguments = funnels},
    },
    {
        .name = "cl.charge",
        .function = charge_command,
        .flags = "write deny-oom fast",
        .last_key = -1,
        .key_step = 5,
        CATEGORIES("write fast"),
        .info = {.version = &info_version,
                 .summary = "Books tokens that were used, whatever the funnels hold.",
                 .complexity = "O(N) where N is the number of funnels, at most 64.",
                 .since = "0.1.0",
                 .arity = -6,
                 .key_specs = KEYS(KEYS_WRITTEN, -1, 5),
                 .arguments = funnels},
    },
    {
        .name = "cl.refund",
        .function = refund_command,
        .flags = "write fast",
        .last_key = -1,
        .key_step = 5,
        CATEGORIES("write fast"),
        .info = {.version = &info_version,
                 .summary = "Gives tokens back to the funnels.",
                 .complexity = "O(N) where N is the number of funnels, at most 64.",
                 .since = "0.1.0",
                 .arity = -6,
                 .key_specs = KEYS(KEYS_WRITTEN, -1, 5),
                 .arguments = funnels},
    },
#ifdef FUNNEL_DEBUG
    {.name = "funnel.debug", .function = debug_command, .flags = "admin", .last_key = 1, .key_step = 1},
#endif
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* Puts a command into built-in categories and, where the server lets
 * modules add one, into the category throttle. A category outlives MODULE UNLOAD, so that
 * adding it fails when the module is loaded again: what counts is whether the
 * command can join it. */
static int set_acl_categories(RedisModuleCtx *ctx, RedisModuleCommand *server_command, const struct command *command)
{
    if (redis.SetCommandACLCategories == NULL) return REDISMODULE_OK;
    if (redis.AddACLCategory != NULL) {
        redis.AddACLCategory(ctx, "throttle");
        if (redis.SetCommandACLCategories(server_command, command->categories) == REDISMODULE_OK) return REDISMODULE_OK;
    }
    return redis.SetCommandACLCategories(server_command, command->builtin_categories);
}

static void describe(RedisModuleCtx *ctx, const struct command *command)
{
    if (command->info.version == NULL || redis.GetCommand == NULL || redis.SetCommandInfo == NULL) return;
    RedisModuleCommand *server_command = redis.GetCommand(ctx, command->name);
    if (server_command == NULL || redis.SetCommandInfo(server_command, &command->info) != REDISMODULE_OK ||
        set_acl_categories(ctx, server_command, command) != REDISMODULE_OK)
        redis.Log(ctx, "warning", "the server does not accept the description of %s", command->name);
}

int register_commands(RedisModuleCtx *ctx)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = &commands[i];
        if (redis.CreateCommand(ctx, command->name, command->function, command->flags, 1, command->last_key,
                                command->key_step) != REDISMODULE_OK) {
            redis.Log(ctx, "warning", "cannot register %s: does another loaded module have that command?",
                      command->name);
            return REDISMODULE_ERR;
        }
        describe(ctx, command);
    }
    return REDISMODULE_OK;
}
