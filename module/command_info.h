#ifndef FUNNEL_COMMAND_INFO_H
#define FUNNEL_COMMAND_INFO_H

#include "abi.h"

/* Describes CL.THROTTLE to servers that take descriptions: COMMAND DOCS, the
 * hints of the command line client, key specs and ACL categories. A server that
 * does not take them runs the command all the same. */
void describe_command(RedisModuleCtx *ctx, const char *command_name);

#endif
