#ifndef FUNNEL_COMMANDS_H
#define FUNNEL_COMMANDS_H

#include "abi.h"

/* Registers the commands, and describes them to servers that take descriptions: COMMAND
 * DOCS, the hints of the command line client, key specs and ACL categories. A server that
 * does not take them runs the commands all the same. Returns REDISMODULE_ERR, with a line
 * in the log, if a command cannot be registered. */
int register_commands(RedisModuleCtx *ctx);

#endif
