#ifndef FUNNEL_ABI_H
#define FUNNEL_ABI_H

/* The part of the Redis Modules ABI that funnel uses.
 *
 * The ABI needs no header file of the server: RedisModule_OnLoad receives a
 * context whose first word is a function that finds every other function by
 * name. Valkey has the same names. The functions are declared once, in the two
 * lists below, which also drive the lookup in abi.c:
 *
 *   REQUIRED_FUNCTIONS  exist since Redis 6.2.8; without one, loading fails;
 *   OPTIONAL_FUNCTIONS  came later; NULL if the server lacks them.
 *
 * Ownership, unless a comment says otherwise: a function borrows its arguments
 * for the call, and everything that the server passes to a command (context,
 * argument strings) lives until that command returns. */

#include <stddef.h>
#include <stdint.h>

/* Opaque: the server owns the contents, and funnel only passes the pointers around. */
typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleKey RedisModuleKey;
typedef struct RedisModuleCommand RedisModuleCommand;
typedef struct RedisModuleInfoCtx RedisModuleInfoCtx;
typedef struct RedisModuleCommandFilter RedisModuleCommandFilter;
typedef struct RedisModuleCommandFilterCtx RedisModuleCommandFilterCtx;
typedef struct RedisModuleCallReply RedisModuleCallReply;
struct RedisModuleCommandInfo;

/* Passed by value. */
typedef struct RedisModuleEvent {
    uint64_t id, data_version;
} RedisModuleEvent;

typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
typedef void (*RedisModuleInfoFunc)(RedisModuleInfoCtx *ctx, int for_crash_report);
typedef void (*RedisModuleEventCallback)(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data);
typedef void (*RedisModuleCommandFilterFunc)(RedisModuleCommandFilterCtx *command);

enum { REDISMODULE_OK = 0, REDISMODULE_ERR = 1 };
enum { REDISMODULE_APIVER_1 = 1 };

/* OpenKey and StringDMA modes. */
enum { REDISMODULE_READ = 1 << 0, REDISMODULE_WRITE = 1 << 1 };

/* KeyType. */
enum { REDISMODULE_KEYTYPE_EMPTY = 0, REDISMODULE_KEYTYPE_STRING = 1, REDISMODULE_KEYTYPE_ZSET = 5 };

/* CallReplyType. */
enum { REDISMODULE_REPLY_INTEGER = 2 };

/* GetAbsExpire and SetAbsExpire. */
enum { REDISMODULE_NO_EXPIRE = -1 };

/* SetModuleOptions. */
enum {
    REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1,
    REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD = 1 << 2,
    VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION = 1 << 5, /* Valkey 9.0 */
    VALKEYMODULE_OPTIONS_HANDLE_FORKLESS = 1 << 6,              /* Valkey 9.2 */
};

/* NotifyKeyspaceEvent. */
enum { REDISMODULE_NOTIFY_GENERIC = 1 << 2, REDISMODULE_NOTIFY_STRING = 1 << 3, REDISMODULE_NOTIFY_ZSET = 1 << 7 };

/* SubscribeToServerEvent. */
enum { REDISMODULE_EVENT_SHUTDOWN = 5, REDISMODULE_EVENT_CRON_LOOP = 8 };

/* clang-format off */
#define REQUIRED_FUNCTIONS(FUNCTION)                                                             \
    FUNCTION(int, IsModuleNameBusy, (const char *name))                                          \
    FUNCTION(void, SetModuleAttribs, (RedisModuleCtx *ctx, const char *name, int version,        \
                                      int api_version))                                          \
    FUNCTION(void, SetModuleOptions, (RedisModuleCtx *ctx, int options))                         \
    FUNCTION(int, CreateCommand, (RedisModuleCtx *ctx, const char *name,                         \
                                  RedisModuleCmdFunc function, const char *flags, int first_key, \
                                  int last_key, int key_step))                                   \
    FUNCTION(int, RegisterInfoFunc, (RedisModuleCtx *ctx, RedisModuleInfoFunc function))         \
    FUNCTION(int, InfoAddSection, (RedisModuleInfoCtx *ctx, const char *name))                   \
    FUNCTION(int, InfoAddFieldCString, (RedisModuleInfoCtx *ctx, const char *field,              \
                                        const char *value))                                      \
    FUNCTION(int, InfoAddFieldULongLong, (RedisModuleInfoCtx *ctx, const char *field,            \
                                          unsigned long long value))                             \
    FUNCTION(void, Log, (RedisModuleCtx *ctx, const char *level, const char *format, ...))       \
    /* The caller frees the string, by FreeString. */                                            \
    FUNCTION(RedisModuleString *, CreateString, (RedisModuleCtx *ctx, const char *bytes,         \
                                                 size_t length))                                 \
    FUNCTION(void, FreeString, (RedisModuleCtx *ctx, RedisModuleString *string))                 \
    /* The bytes live as long as the string. */                                                  \
    FUNCTION(const char *, StringPtrLen, (const RedisModuleString *string, size_t *length))      \
    FUNCTION(int, StringToLongLong, (const RedisModuleString *string, long long *number))        \
    /* The caller closes the key. It is NULL if the key does not exist and is opened for reading,\
     * or if it is opened for writing while the server has it in use (commands.c). The functions \
     * below accept NULL as a key that does not exist. */                                        \
    FUNCTION(RedisModuleKey *, OpenKey, (RedisModuleCtx *ctx, RedisModuleString *name,           \
                                         int mode))                                              \
    FUNCTION(void, CloseKey, (RedisModuleKey *key))                                              \
    FUNCTION(int, KeyType, (RedisModuleKey *key))                                                \
    /* The bytes live until the key is written or closed. */                                     \
    FUNCTION(char *, StringDMA, (RedisModuleKey *key, size_t *length, int mode))                 \
    FUNCTION(int, DeleteKey, (RedisModuleKey *key))                                              \
    /* The key takes a reference of its own to the value. */                                     \
    FUNCTION(int, StringSet, (RedisModuleKey *key, RedisModuleString *value))                    \
    FUNCTION(int, SetAbsExpire, (RedisModuleKey *key, long long unix_milliseconds))              \
    FUNCTION(int, StringCompare, (RedisModuleString *a, RedisModuleString *b))                   \
    FUNCTION(size_t, ValueLength, (RedisModuleKey *key))                                         \
    FUNCTION(long long, GetAbsExpire, (RedisModuleKey *key))                                     \
    FUNCTION(int, ZsetScore, (RedisModuleKey *key, RedisModuleString *member, double *score))    \
    FUNCTION(int, ZsetAdd, (RedisModuleKey *key, double score, RedisModuleString *member,        \
                            int *flags))                                                         \
    FUNCTION(int, ZsetRem, (RedisModuleKey *key, RedisModuleString *member, int *deleted))       \
    FUNCTION(int, ZsetFirstInScoreRange, (RedisModuleKey *key, double min, double max,           \
                                          int above, int below))                                 \
    FUNCTION(int, ZsetLastInScoreRange, (RedisModuleKey *key, double min, double max, int above, \
                                         int below))                                             \
    /* The caller frees the string. */                                                           \
    FUNCTION(RedisModuleString *, ZsetRangeCurrentElement, (RedisModuleKey *key, double *score)) \
    FUNCTION(int, ZsetRangeNext, (RedisModuleKey *key))                                          \
    FUNCTION(int, ZsetRangePrev, (RedisModuleKey *key))                                          \
    FUNCTION(int, ZsetRangeEndReached, (RedisModuleKey *key))                                    \
    FUNCTION(void, ZsetRangeStop, (RedisModuleKey *key))                                         \
    /* The caller frees the reply, which is NULL if the server refuses the call. */              \
    FUNCTION(RedisModuleCallReply *, Call, (RedisModuleCtx *ctx, const char *command,            \
                                            const char *format, ...))                            \
    FUNCTION(int, CallReplyType, (RedisModuleCallReply *reply))                                  \
    FUNCTION(long long, CallReplyInteger, (RedisModuleCallReply *reply))                         \
    FUNCTION(void, FreeCallReply, (RedisModuleCallReply *reply))                                 \
    FUNCTION(int, SignalModifiedKey, (RedisModuleCtx *ctx, RedisModuleString *name))             \
    FUNCTION(int, NotifyKeyspaceEvent, (RedisModuleCtx *ctx, int type, const char *event,        \
                                        RedisModuleString *name))                                \
    FUNCTION(int, Replicate, (RedisModuleCtx *ctx, const char *command, const char *format,      \
                              ...))                                                              \
    FUNCTION(int, SubscribeToServerEvent, (RedisModuleCtx *ctx, RedisModuleEvent event,          \
                                           RedisModuleEventCallback callback))                   \
    FUNCTION(RedisModuleCommandFilter *, RegisterCommandFilter,                                  \
             (RedisModuleCtx *ctx, RedisModuleCommandFilterFunc callback, int flags))            \
    FUNCTION(int, UnregisterCommandFilter, (RedisModuleCtx *ctx,                                 \
                                            RedisModuleCommandFilter *filter))                   \
    FUNCTION(int *, GetCommandKeys, (RedisModuleCtx *ctx, RedisModuleString **words, int count,  \
                                     int *keys))                                                 \
    FUNCTION(int, WrongArity, (RedisModuleCtx *ctx))                                             \
    FUNCTION(int, ReplyWithError, (RedisModuleCtx *ctx, const char *message))                    \
    FUNCTION(int, ReplyWithArray, (RedisModuleCtx *ctx, long length))                            \
    FUNCTION(int, ReplyWithLongLong, (RedisModuleCtx *ctx, long long number))                    \
    FUNCTION(int, ReplyWithStringBuffer, (RedisModuleCtx *ctx, const char *bytes,                \
                                          size_t length))

#define OPTIONAL_FUNCTIONS(FUNCTION)                                                             \
    /* Redis 7.0 */                                                                              \
    FUNCTION(RedisModuleCommand *, GetCommand, (RedisModuleCtx *ctx, const char *name))          \
    FUNCTION(int, SetCommandInfo, (RedisModuleCommand *command,                                  \
                                   const struct RedisModuleCommandInfo *info))                   \
    /* Redis 7.2 */                                                                              \
    FUNCTION(int, GetModuleOptionsAll, (void))                                                   \
    FUNCTION(int, SetCommandACLCategories, (RedisModuleCommand *command,                         \
                                            const char *categories))                             \
    /* Redis 7.4 */                                                                              \
    FUNCTION(int, AddACLCategory, (RedisModuleCtx *ctx, const char *category))
/* clang-format on */

/* The functions as found in the server that loaded the module. */
struct redis_api {
#define FUNCTION(result, name, parameters) result(*name) parameters;
    REQUIRED_FUNCTIONS(FUNCTION)
    OPTIONAL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
extern struct redis_api redis;

/* Fills redis from the context that RedisModule_OnLoad received. Returns NULL, or the name of the
 * first required function that this server lacks: a string constant. */
const char *find_functions(RedisModuleCtx *ctx);

#endif
