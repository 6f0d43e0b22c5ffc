#ifndef FUNNEL_COMMANDS_H
#define FUNNEL_COMMANDS_H

#include "abi.h"
#include "call.h"
#include "command_info.h"

enum words {
    ONE_ROW_OR_LESS,    /* the last word of the row, the quantity, may be left out */
    ONE_ROW,            /* all words of one row */
    ROWS,               /* from 1 to MAX_ROWS */
    ROWS_AND_LAST_WORD, /* a word follows the rows; it may be left out */
};

/* The words that a command takes, where the keys are among them, and how the command replies. The
 * first key is word 1. */
struct shape {
    enum words words;
    enum form form;
    int last_key, key_step;

    /* For COMMAND DOCS. */
    int arity;
    struct command_argument *arguments; /* the server copies them */
    const char *complexity;
};

/* What a command does to its keys. */
struct access {
    const char *flags;
    const char *categories, *builtin_categories; /* for ACLs: with and without the category throttle */
    uint64_t keys;
};

/* Everything about a command. */
struct command {
    const char *name;
    RedisModuleCmdFunc function;
    enum operation operation;
    const struct shape *shape;
    const struct access *access;
    const char *summary; /* for COMMAND DOCS; NULL for a command that is not described */
};

extern const struct command commands[];
extern const int command_count;

#endif
