#ifndef FUNNEL_REGISTER_H
#define FUNNEL_REGISTER_H

#include "abi.h"

/* Reports whether no other module has one of funnel's commands, and the server has the commands
 * that funnel replicates. If not, the log says why. Call this before any command is registered:
 * when a load fails later, the server frees the commands, although one of its threads may have
 * looked one up (unload.h). */
int can_register(RedisModuleCtx *ctx);

/* Registers the commands, and describes them to servers that accept descriptions: COMMAND DOCS, the
 * hints of the command line client, key specs and ACL categories. Other servers run the commands
 * without them. Returns REDISMODULE_ERR, with a line in the log, if a command cannot be
 * registered. */
int register_commands(RedisModuleCtx *ctx);

#endif
