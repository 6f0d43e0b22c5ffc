#ifndef FUNNEL_COMMANDS_H
#define FUNNEL_COMMANDS_H

#include "abi.h"
#include "call.h"
#include "command_info.h"

enum words {
    ONE_FUNNEL_OR_LESS,    /* the quantity may be left out */
    ONE_FUNNEL,            /* all of its words */
    FUNNELS,               /* from 1 to MOST_FUNNELS */
    FUNNELS_AND_LAST_WORD, /* which may be left out */
};

/* Everything about a command. */
struct command {
    const char *name;
    RedisModuleCmdFunc function;
    enum operation operation;
    const char *summary;

    enum words words;
    enum form form;

    const char *flags;
    const char *categories, *builtin_categories; /* for ACLs: with and without our own */
    uint64_t access;                             /* of the keys, the first of which is word 1 */
    int last_key, key_step;

    /* For COMMAND DOCS, as is the summary. */
    int arity;
    struct command_argument *arguments; /* the server copies them */
    const char *complexity;
};

extern const struct command commands[];
extern const int command_count;

#endif
