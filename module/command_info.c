#include "command_info.h"

/* The layouts that SetCommandInfo expects. The server learns their sizes from
 * struct command_info_version and steps through the arrays by them, so that
 * newer servers, whose structures are longer, still understand these. */

enum argument_type { ARGUMENT_STRING = 0, ARGUMENT_INTEGER = 1, ARGUMENT_DOUBLE = 2, ARGUMENT_KEY = 3 };
enum { ARGUMENT_OPTIONAL = 1 << 0 };

struct command_argument {
    const char *name;
    enum argument_type type;
    int key_spec_index; /* of a key; -1 for other types */
    const char *token;
    const char *summary;
    const char *since;
    int flags;
    const char *deprecated_since;
    struct command_argument *subarguments;
    const char *display_text;
};

enum { KEY_READ_WRITE = 1 << 1, KEY_ACCESS = 1 << 4, KEY_UPDATE = 1 << 5 };
enum begin_search { BEGIN_SEARCH_INDEX = 2 };
enum find_keys { FIND_KEYS_RANGE = 2 };

struct key_spec {
    const char *notes;
    uint64_t flags;
    enum begin_search begin_search;
    union {
        int index;
        struct {
            const char *keyword;
            int start_from;
        } keyword;
    } begin;
    enum find_keys find_keys;
    union {
        struct {
            int last_key, key_step, limit;
        } range;
        struct {
            int key_number_index, first_key, key_step;
        } key_number;
    } find;
};

struct history_entry {
    const char *since;
    const char *changes;
};

struct command_info_version {
    int version;
    size_t history_entry_size;
    size_t key_spec_size;
    size_t argument_size;
};

struct RedisModuleCommandInfo {
    const struct command_info_version *version;
    const char *summary;
    const char *complexity;
    const char *since;
    struct history_entry *history;
    const char *tips;
    int arity;
    struct key_spec *key_specs;
    struct command_argument *arguments;
};

/* Arrays end with an entry of zeroes. The server copies all of it. */

static struct key_spec throttle_keys[] = {
    {
        .flags = KEY_READ_WRITE | KEY_ACCESS | KEY_UPDATE,
        .begin_search = BEGIN_SEARCH_INDEX,
        .begin.index = 1,
        .find_keys = FIND_KEYS_RANGE,
        .find.range = {.last_key = 0, .key_step = 1, .limit = 0},
    },
    {0},
};

static struct command_argument throttle_arguments[] = {
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},
    {.name = "capacity", .type = ARGUMENT_INTEGER, .key_spec_index = -1},
    {.name = "count", .type = ARGUMENT_INTEGER, .key_spec_index = -1},
    {.name = "period", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},
    {.name = "quantity", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};

static const struct command_info_version info_version = {
    .version = 1,
    .history_entry_size = sizeof(struct history_entry),
    .key_spec_size = sizeof(struct key_spec),
    .argument_size = sizeof(struct command_argument),
};

static const struct RedisModuleCommandInfo throttle_info = {
    .version = &info_version,
    .summary = "Pours tokens into a funnel that leaks at a fixed rate, or says when they would fit.",
    .complexity = "O(1)",
    .since = "0.1.0",
    .arity = -5,
    .key_specs = throttle_keys,
    .arguments = throttle_arguments,
};

/* Puts the command into the built-in categories and, where the server lets
 * modules add one, into its own. A category outlives MODULE UNLOAD, so that
 * adding it fails when the module is loaded again: what counts is whether the
 * command can join it. */
static void set_acl_categories(RedisModuleCtx *ctx, RedisModuleCommand *command)
{
    if (redis.SetCommandACLCategories == NULL) return;
    if (redis.AddACLCategory != NULL) {
        redis.AddACLCategory(ctx, "throttle");
        if (redis.SetCommandACLCategories(command, "write fast throttle") == REDISMODULE_OK) return;
    }
    if (redis.SetCommandACLCategories(command, "write fast") != REDISMODULE_OK)
        redis.Log(ctx, "warning", "the server does not accept the ACL categories of cl.throttle");
}

void describe_command(RedisModuleCtx *ctx, const char *command_name)
{
    if (redis.GetCommand == NULL || redis.SetCommandInfo == NULL) return;
    RedisModuleCommand *command = redis.GetCommand(ctx, command_name);
    if (command == NULL || redis.SetCommandInfo(command, &throttle_info) != REDISMODULE_OK)
        redis.Log(ctx, "warning", "the server does not accept the description of %s", command_name);
    if (command != NULL) set_acl_categories(ctx, command);
}
