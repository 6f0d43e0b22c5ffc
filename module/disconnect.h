#ifndef FUNNEL_DISCONNECT_H
#define FUNNEL_DISCONNECT_H

#include "abi.h"

/* Closes the connections of all clients that may point at a command of this
 * module, which the server is about to free. Is_ours tells whether a command, by
 * its name of that length, is one. */
void disconnect_holders(RedisModuleCtx *ctx, int (*is_ours)(const char *name, size_t length));

#endif
