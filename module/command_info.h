#ifndef FUNNEL_COMMAND_INFO_H
#define FUNNEL_COMMAND_INFO_H

#include "abi.h"

/* The layouts that SetCommandInfo expects. The server takes their sizes from struct
 * command_info_version and steps through the arrays by them. Newer servers, whose structures are
 * longer, therefore still understand these. */

enum argument_type {
    ARGUMENT_STRING = 0,
    ARGUMENT_INTEGER = 1,
    ARGUMENT_DOUBLE = 2,
    ARGUMENT_KEY = 3,
    ARGUMENT_TOKEN = 6,
    ARGUMENT_ONE_OF = 7,
    ARGUMENT_BLOCK = 8,
};
enum { ARGUMENT_OPTIONAL = 1 << 0, ARGUMENT_MULTIPLE = 1 << 1 };

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

enum { KEY_READ_ONLY = 1 << 0, KEY_READ_WRITE = 1 << 1, KEY_ACCESS = 1 << 4, KEY_UPDATE = 1 << 5 };
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
    struct {
        int last_key, key_step, limit;
    } range; /* the server has a union here; its other member is as large */
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

#endif
