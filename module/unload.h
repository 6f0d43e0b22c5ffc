#ifndef FUNNEL_UNLOAD_H
#define FUNNEL_UNLOAD_H

#include "abi.h"

/* Servers free the commands of a module that they unload, although clients may still
 * point at them: a client at the last command that it ran, at those that it queued
 * within MULTI, and at those that the server has parsed ahead. Several servers crash
 * when such a client goes on, and no module can tell who points where. So MODULE
 * UNLOAD is refused. It is granted
 *
 *   - as long as no command has been executed since, and the loop has not turned: a
 *     server that rejects a module after OnLoad, for a setting that it does not know
 *     say, unloads it at once, and nobody can have found its commands yet;
 *   - while the server shuts down: Valkey 9 unloads its modules then. */

/* To be called when the module is loaded. */
void unload_start(RedisModuleCtx *ctx);

/* Whether MODULE UNLOAD is to be refused now. If so, the log says why. */
int unload_is_refused(RedisModuleCtx *ctx);

#endif
