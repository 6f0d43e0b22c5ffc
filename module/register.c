#include "register.h"

#include <errno.h>
#include <string.h>

#include "commands.h"

/* Puts a command into built-in categories and, if the server lets modules add one, into
 * the category throttle. A category outlives MODULE UNLOAD, so adding it fails if the
 * module is loaded again. That does not matter as long as the command can join it. */
static int set_acl_categories(RedisModuleCtx *ctx, RedisModuleCommand *server_command, const struct command *command)
{
    if (redis.SetCommandACLCategories == NULL) return REDISMODULE_OK;
    if (redis.AddACLCategory != NULL) {
        redis.AddACLCategory(ctx, "throttle");
        if (redis.SetCommandACLCategories(server_command, command->access->categories) == REDISMODULE_OK)
            return REDISMODULE_OK;
    }
    return redis.SetCommandACLCategories(server_command, command->access->builtin_categories);
}

static const struct command_info_version info_version = {
    .version = 1,
    .history_entry_size = sizeof(struct history_entry),
    .key_spec_size = sizeof(struct key_spec),
    .argument_size = sizeof(struct command_argument),
};

/* Describes a command to the server, which copies the description. */
static void describe(RedisModuleCtx *ctx, const struct command *command)
{
    if (command->summary == NULL || redis.GetCommand == NULL || redis.SetCommandInfo == NULL) return;
    const struct shape *shape = command->shape;
    struct key_spec keys[] = {
        {.flags = command->access->keys | KEY_ACCESS,
         .begin_search = BEGIN_SEARCH_INDEX,
         .begin.index = 1,
         .find_keys = FIND_KEYS_RANGE,
         /* A last key counts from the first key, or from the last word if it is negative. */
         .range = {.last_key = shape->last_key - (shape->last_key > 0), .key_step = shape->key_step}},
        {0},
    };
    struct RedisModuleCommandInfo info = {
        .version = &info_version,
        .summary = command->summary,
        .complexity = shape->complexity,
        .since = "0.1.0",
        .arity = shape->arity,
        .key_specs = keys,
        .arguments = shape->arguments,
    };
    RedisModuleCommand *server_command = redis.GetCommand(ctx, command->name);
    if (server_command == NULL || redis.SetCommandInfo(server_command, &info) != REDISMODULE_OK ||
        set_acl_categories(ctx, server_command, command) != REDISMODULE_OK)
        redis.Log(ctx, "warning", "the server does not accept the description of %s", command->name);
}

/* Reports whether the server has a command of that name. If it has none, asking for the keys of a
 * call of that command sets errno to ENOENT. If it has one, it returns NULL, too, and no array that
 * would have to be freed: each of these commands takes more words than its name. */
static int has_command(RedisModuleCtx *ctx, const char *name)
{
    RedisModuleString *word = redis.CreateString(NULL, name, strlen(name));
    int keys = 0;
    errno = 0;
    redis.GetCommandKeys(ctx, &word, 1, &keys);
    int found = errno != ENOENT;
    redis.FreeString(NULL, word);
    return found;
}

/* The commands that the module replicates. If rename-command has renamed one, the server does not
 * send it. */
static const char *const replicated[] = {"set", "del", "zadd", "zrem", "zremrangebyrank", "pexpireat", "persist"};

int can_register(RedisModuleCtx *ctx)
{
    for (int i = 0; i < command_count; i++) {
        if (!has_command(ctx, commands[i].name)) continue;
        redis.Log(ctx, "warning", "funnel is not loaded: another module has the command %s", commands[i].name);
        return 0;
    }
    for (size_t i = 0; i < sizeof replicated / sizeof *replicated; i++) {
        if (has_command(ctx, replicated[i])) continue;
        redis.Log(
            ctx, "warning",
            "funnel is not loaded: it sends the command %s to replicas and the AOF, and this server has renamed it: "
            "remove the line rename-command %s",
            replicated[i], replicated[i]);
        return 0;
    }
    return 1;
}

int register_commands(RedisModuleCtx *ctx)
{
    if (redis.SetCommandACLCategories == NULL)
        redis.Log(ctx, "notice",
                  "this server has no ACL categories for commands of modules: a rule such as -@write does not cover "
                  "funnel's commands; name them, as in -cl.throttle");
    /* The most used command is last (unload.h). */
    for (int i = command_count - 1; i >= 0; i--) {
        const struct command *command = &commands[i];
        if (redis.CreateCommand(ctx, command->name, command->function, command->access->flags, 1,
                                command->shape->last_key, command->shape->key_step) != REDISMODULE_OK) {
            redis.Log(ctx, "warning", "the server does not accept the command %s", command->name);
            return REDISMODULE_ERR;
        }
        describe(ctx, command);
    }
    return REDISMODULE_OK;
}
