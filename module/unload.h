#ifndef FUNNEL_UNLOAD_H
#define FUNNEL_UNLOAD_H

#include "abi.h"

/* Servers free the commands of a module that they unload, although clients may still point at them.
 * A client points at the last command that it sent, even if it was rejected, at the commands that
 * it queued within MULTI, and at commands that the server has parsed ahead. Several servers crash
 * when such a client sends its next command, and no module can find these clients. So MODULE UNLOAD
 * is refused. It is granted
 *
 *   - as long as no client has sent a command since the module was loaded, not even MODULE UNLOAD:
 *     a server that rejects a module after OnLoad, for example because of an unknown setting,
 *     unloads it at once;
 *   - once the event of a shutdown has come, after which every server exits: Valkey 9 then unloads
 *     its modules.
 *
 * One window remains: with io-threads, a thread may look a command up while the main thread rejects
 * the load. A server does not tell a module about that. To keep the window short, commands are
 * registered last, and the most used command after all other commands. */

/* Call this when nothing can fail any more: Redis 6.2 and 7.0 keep callbacks of a module whose
 * OnLoad has failed. */
void unload_start(RedisModuleCtx *ctx);

/* Whether to refuse MODULE UNLOAD now. If so, the log says why. */
int unload_is_refused(RedisModuleCtx *ctx);

#endif
