#include "commands.h"

#include "clock.h"
#include "compat.h"
#include "kinds.h"
#include "reply.h"

/* An array of arguments ends with an entry of zeroes. The server copies the arrays, and never
 * writes to them. */

/* clang-format off */

#define FUNNEL_WORDS(flags_of_quantity)                                                               \
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},                                       \
    {.name = "capacity", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                             \
    {.name = "count", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                                \
    {.name = "period", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},                                \
    {.name = "quantity", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = flags_of_quantity}, \
    {0}

#define QUOTA_WORDS(end, type_of_end)                                                                 \
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},                                       \
    {.name = "limit", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                                \
    {.name = "until-token", .type = ARGUMENT_TOKEN, .key_spec_index = -1, .token = "UNTIL"},          \
    {.name = end, .type = type_of_end, .key_spec_index = -1},                                         \
    {.name = "quantity", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                             \
    {0}

static struct command_argument throttle_arguments[] = {FUNNEL_WORDS(ARGUMENT_OPTIONAL)};
static struct command_argument funnel_arguments[] = {FUNNEL_WORDS(0)};
static struct command_argument slots_arguments[] = {
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},
    {.name = "limit", .type = ARGUMENT_INTEGER, .key_spec_index = -1},
    {.name = "slots", .type = ARGUMENT_TOKEN, .key_spec_index = -1, .token = "SLOTS"},
    {.name = "ttl", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},
    {.name = "holder", .type = ARGUMENT_STRING, .key_spec_index = -1},
    {0},
};
static struct command_argument quota_arguments[] = {QUOTA_WORDS("until", ARGUMENT_DOUBLE)};
static struct command_argument window_arguments[] = {QUOTA_WORDS("+seconds", ARGUMENT_STRING)};

#define FUNNEL_KIND {.name = "funnel", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = funnel_arguments}
#define SLOTS_KIND {.name = "slots", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = slots_arguments}
#define QUOTA_KIND {.name = "quota", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = quota_arguments}
#define WINDOW_KIND {.name = "window", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = window_arguments}

static struct command_argument row_kinds[] = {FUNNEL_KIND, SLOTS_KIND, QUOTA_KIND, WINDOW_KIND, {0}};
static struct command_argument kinds_to_take[] = {FUNNEL_KIND, QUOTA_KIND, WINDOW_KIND, {0}};
static struct command_argument kinds_to_refund[] = {FUNNEL_KIND, SLOTS_KIND, QUOTA_KIND, {0}};
static struct command_argument take_arguments[] = {
    {.name = "row", .type = ARGUMENT_ONE_OF, .key_spec_index = -1, .subarguments = kinds_to_take},
    {0},
};

#define ROW_ARGUMENTS(kinds) \
    {.name = "row", .type = ARGUMENT_ONE_OF, .key_spec_index = -1, .flags = ARGUMENT_MULTIPLE, .subarguments = kinds}

static struct command_argument rows_arguments[] = {ROW_ARGUMENTS(row_kinds), {0}};
static struct command_argument reserve_arguments[] = {
    ROW_ARGUMENTS(row_kinds),
    {.name = "max_wait", .type = ARGUMENT_DOUBLE, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};
static struct command_argument refund_arguments[] = {
    ROW_ARGUMENTS(kinds_to_refund),
    {.name = "tat", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};
/* clang-format on */

static const char one_row_complexity[] = "O(1)";
static const char rows_complexity[] =
    "O(N) where N is the number of rows, and O(log(M)) more for each row of slots, M of which are in its set.";

static const struct shape throttle_shape = {
    .words = ONE_ROW_OR_LESS,
    .form = IN_SECONDS,
    .last_key = 1,
    .key_step = 1,
    .arity = -5,
    .arguments = throttle_arguments,
    .complexity = one_row_complexity,
};
static const struct shape take_shape = {
    .words = ONE_ROW,
    .form = IN_ROWS,
    .last_key = 1,
    .key_step = 1,
    .arity = 6,
    .arguments = take_arguments,
    .complexity = one_row_complexity,
};
static const struct shape rows_shape = {
    .words = ROWS,
    .form = IN_ROWS,
    .last_key = -1,
    .key_step = WORDS_PER_ROW,
    .arity = -6,
    .arguments = rows_arguments,
    .complexity = rows_complexity,
};
static const struct shape reserve_shape = {
    .words = ROWS_AND_LAST_WORD,
    .form = IN_ROWS,
    .last_key = -2,
    .key_step = WORDS_PER_ROW,
    .arity = -6,
    .arguments = reserve_arguments,
    .complexity = rows_complexity,
};
static const struct shape refund_shape = {
    .words = ROWS_AND_LAST_WORD,
    .form = IN_ROWS,
    .last_key = -2,
    .key_step = WORDS_PER_ROW,
    .arity = -6,
    .arguments = refund_arguments,
    .complexity = rows_complexity,
};

static const struct access reads_keys = {"readonly fast", "read fast throttle", "read fast", KEY_READ_ONLY};
static const struct access empties_keys = {"write fast", "write fast throttle", "write fast",
                                           KEY_READ_WRITE | KEY_UPDATE};
static const struct access fills_keys = {"write deny-oom fast", "write fast throttle", "write fast",
                                         KEY_READ_WRITE | KEY_UPDATE};

#ifdef FUNNEL_DEBUG
static const struct shape debug_shape = {.last_key = 1, .key_step = 1};
static const struct access debug_access = {.flags = "admin"};
#endif

/* The server does not tell a function which command it runs, so each command has its own
 * function. */
typedef int command_function(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
static command_function throttle_command, reserve_command, take_command, peek_command, charge_command, refund_command;

/* The index of each command in the table. */
enum { THROTTLE_AT, RESERVE_AT, TAKE_AT, PEEK_AT, CHARGE_AT, REFUND_AT };

const struct command commands[] = {
    [THROTTLE_AT] = {"cl.throttle", throttle_command, RESERVE, &throttle_shape, &fills_keys,
                     "Takes tokens from a funnel that leaks at a fixed rate, or says when they would fit."},
    [RESERVE_AT] =
        {"cl.reserve", reserve_command, RESERVE, &reserve_shape, &fills_keys,
         "Takes from the funnels, slots and quotas of all rows or of none, or reserves tokens of one funnel ahead "
         "of time."},
    [TAKE_AT] = {"cl.take", take_command, TAKE, &take_shape, &fills_keys,
                 "Takes as much from a funnel or a quota as fits, up to a quantity."},
    [PEEK_AT] = {"cl.peek", peek_command, PEEK, &rows_shape, &reads_keys,
                 "Says whether CL.RESERVE would take from all rows, and takes nothing."},
    [CHARGE_AT] = {"cl.charge", charge_command, CHARGE, &rows_shape, &fills_keys,
                   "Records use of funnels, slots and quotas, even beyond their limits."},
    [REFUND_AT] = {"cl.refund", refund_command, REFUND, &refund_shape, &empties_keys,
                   "Gives back tokens of funnels and quotas, and slots."},
#ifdef FUNNEL_DEBUG
    {"funnel.debug", debug_command, 0, &debug_shape, &debug_access, NULL},
#endif
};

const int command_count = sizeof commands / sizeof commands[0];

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Returns how many rows a call has, or 0 if the command does not accept that number of words. */
ALWAYS_INLINE uint32_t count_rows(const struct command *command, int argc)
{
    const enum words accepted = command->shape->words;
    int words = argc - 1;
    if (accepted == ONE_ROW) return words == WORDS_PER_ROW;
    if (accepted == ONE_ROW_OR_LESS) return words == WORDS_PER_ROW || words == WORDS_PER_ROW - 1;
    int rows = words / WORDS_PER_ROW, more = words % WORDS_PER_ROW;
    if (rows > MAX_ROWS || more > (accepted == ROWS_AND_LAST_WORD)) return 0;
    return (uint32_t)rows;
}

/* Returns the words of a row: a part of argv, which belongs to the server. */
static RedisModuleString **words_of(RedisModuleString **argv, uint32_t row)
{
    return argv + 1 + WORDS_PER_ROW * row;
}

/* Reads the words of all rows, and the last word. Go needs the keys only to compare them with each
 * other. A quantity that is left out is 1. */
ALWAYS_INLINE void read_arguments(struct call *call, RedisModuleString **argv, int argc, uint32_t length)
{
    int words = argc - 1;
    for (uint32_t i = 0; i < length; i++) {
        RedisModuleString **from = words_of(argv, i);
        struct text *to = call->rows[i].words;
        if (length > 1) to[0] = text_of(from[0]);
        to[1] = text_of(from[1]);
        to[2] = text_of(from[2]);
        to[3] = text_of(from[3]);
        to[4] = words < WORDS_PER_ROW ? (struct text){"1", 1} : text_of(from[4]);
    }
    int has_last_word = words > WORDS_PER_ROW * (int)length;
    call->last_word = has_last_word ? text_of(argv[argc - 1]) : (struct text){NULL, 0};
}

/* Valkey 9.2 can save keys, and send them to replicas, without a fork. While it uses a key for
 * that, the key cannot be opened for writing. The server holds a client's command back until its
 * keys are free, so no call should meet such a key. If one does, the whole call is an error. */
static __attribute__((cold)) void mark_in_use(struct row *row)
{
    row->stored = STORED_IN_USE;
    row->string.stored = (struct text){NULL, 0};
}

/* Runs a command. It enters Go twice, whatever the number of rows: go_parse gets all arguments, and
 * go_decide gets all stored values. Both are entry points in enter_*.S, which lead to Parse and
 * Decide of package command. All keys are opened before any is written, and closed before a write
 * is replicated or notified.
 *
 * This is inlined into each command's function because the compiler then knows the command's entry
 * in the table. */
ALWAYS_INLINE int run_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, const struct command *command)
{
    const uint32_t length = count_rows(command, argc);
    if (length == 0) return redis.WrongArity(ctx);
    /* Not cleared: every field is set before it is read. */
    struct call call;
    call.operation = command->operation;
    call.form = command->shape->form;
    call.length = length;
    call.limit_surplus = command->shape->form == IN_SECONDS ? compat_surplus : 0;
    read_arguments(&call, argv, argc, length);
    go_parse(&call);
    if (call.verdict != VERDICT_PARSED) return reply(ctx, &call);

    /* Every command except CL.PEEK opens its keys for writing, even though many calls write
     * nothing: one lookup then serves reading and writing. The module has turned the implicit "key
     * was modified" off, so closing a key that was not written leaves no trace. */
    RedisModuleKey *keys[MAX_ROWS];
    int mode = command->operation == PEEK ? REDISMODULE_READ : REDISMODULE_READ | REDISMODULE_WRITE;
    for (uint32_t i = 0; i < length; i++) keys[i] = redis.OpenKey(ctx, words_of(argv, i)[0], mode);
    call.now = clock_nanoseconds();
    for (uint32_t i = 0; i < length; i++) {
        if (mode != REDISMODULE_READ && keys[i] == NULL)
            mark_in_use(&call.rows[i]);
        else
            key_read(&call.rows[i], ctx, keys[i], words_of(argv, i), call.now);
    }
    go_decide(&call);
    for (uint32_t i = 0; i < length; i++) {
        if (call.writes > 0) key_write(&call.rows[i], keys[i], words_of(argv, i), call.now);
        redis.CloseKey(keys[i]);
    }
    if (call.writes > 0) {
        for (uint32_t i = 0; i < length; i++) key_replicate(&call.rows[i], ctx, words_of(argv, i));
        for (uint32_t i = 0; i < length; i++) key_notify(&call.rows[i], ctx, words_of(argv, i)[0]);
    }
    return reply(ctx, &call);
}

static int throttle_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[THROTTLE_AT]);
}

static int reserve_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[RESERVE_AT]);
}

static int take_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[TAKE_AT]);
}

static int peek_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[PEEK_AT]);
}

static int charge_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[CHARGE_AT]);
}

static int refund_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    return run_command(ctx, argv, argc, &commands[REFUND_AT]);
}
