#define _GNU_SOURCE /* memmem */

#include "disconnect.h"

#include <stdint.h>
#include <string.h>

/* MODULE UNLOAD frees a module's commands, although clients may still point at
 * them: each at its last command, and those within MULTI at what they have queued.
 * Redis 8 runs the last command again, without looking it up, when the next one
 * has the same name; every server runs what is queued, and reads the name of the
 * last command in CLIENT LIST. Either may crash it. So these clients are
 * disconnected: they reconnect, and find an unknown command, or the module loaded
 * again. */

/* The value of a field, such as " cmd=", of a line of CLIENT LIST; *length is 0
 * where the line has no such field. Names and values hold no spaces. */
static const char *field(const char *line, size_t line_length, const char *name, size_t *length)
{
    const char *value = memmem(line, line_length, name, strlen(name));
    *length = 0;
    if (value == NULL) return line;
    value += strlen(name);
    const char *end = line + line_length;
    while (value + *length < end && value[*length] != ' ') ++*length;
    return value;
}

/* Whoever is within EXEC has begun to run the queue, which no longer helps: that
 * is the client that unloads the module in a transaction. */
static int holds(const char *line, size_t line_length, int (*is_ours)(const char *name, size_t length))
{
    size_t command_length, queued_length;
    const char *command = field(line, line_length, " cmd=", &command_length);
    const char *queued = field(line, line_length, " multi=", &queued_length);
    int has_queue = queued_length > 0 && *queued != '-' && *queued != '0';
    int in_exec = command_length == 4 && memcmp(command, "exec", 4) == 0;
    return is_ours(command, command_length) || (has_queue && !in_exec);
}

void disconnect_holders(RedisModuleCtx *ctx, int (*is_ours)(const char *name, size_t length))
{
    RedisModuleCallReply *reply = redis.Call(ctx, "CLIENT", "c", "LIST");
    if (reply == NULL) return;
    size_t length;
    const char *line = redis.CallReplyStringPtr(reply, &length);
    const char *end = line == NULL ? NULL : line + length;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t line_length = (size_t)((newline == NULL ? end : newline) - line);
        if (holds(line, line_length, is_ours)) {
            /* A line begins with id=, and digits. */
            uint64_t id = 0;
            for (size_t i = strlen("id="); i < line_length && line[i] != ' '; i++) id = id * 10 + (uint64_t)(line[i] - '0');
            redis.DeauthenticateAndCloseClient(ctx, id);
        }
        line = newline == NULL ? end : newline + 1;
    }
    redis.FreeCallReply(reply);
}
