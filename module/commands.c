#include "commands.h"

#include "clock.h"
#include "compat.h"
#include "key.h"
#include "reply.h"

/* Arrays of arguments end with an entry of zeroes. The server copies them, and writes to none. */

enum { WORDS_PER_FUNNEL = 5 };

/* clang-format off */

#define FUNNEL_WORDS(flags_of_quantity)                                                               \
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},                                       \
    {.name = "capacity", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                             \
    {.name = "count", .type = ARGUMENT_INTEGER, .key_spec_index = -1},                                \
    {.name = "period", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},                                \
    {.name = "quantity", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = flags_of_quantity}, \
    {0}

static struct command_argument one_funnel[] = {FUNNEL_WORDS(ARGUMENT_OPTIONAL)};
static struct command_argument funnel_words[] = {FUNNEL_WORDS(0)}; /* also CL.TAKE's */

static struct command_argument slots_words[] = {
    {.name = "key", .type = ARGUMENT_KEY, .key_spec_index = 0},
    {.name = "limit", .type = ARGUMENT_INTEGER, .key_spec_index = -1},
    {.name = "slots", .type = ARGUMENT_TOKEN, .key_spec_index = -1, .token = "SLOTS"},
    {.name = "ttl", .type = ARGUMENT_DOUBLE, .key_spec_index = -1},
    {.name = "holder", .type = ARGUMENT_STRING, .key_spec_index = -1},
    {0},
};
static struct command_argument kinds[] = {
    {.name = "funnel", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = funnel_words},
    {.name = "slots", .type = ARGUMENT_BLOCK, .key_spec_index = -1, .subarguments = slots_words},
    {0},
};

#define ROW_ARGUMENTS \
    {.name = "row", .type = ARGUMENT_ONE_OF, .key_spec_index = -1, .flags = ARGUMENT_MULTIPLE, .subarguments = kinds}

static struct command_argument rows[] = {ROW_ARGUMENTS, {0}};
static struct command_argument rows_and_max_wait[] = {
    ROW_ARGUMENTS,
    {.name = "max_wait", .type = ARGUMENT_DOUBLE, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};
static struct command_argument rows_and_tat[] = {
    ROW_ARGUMENTS,
    {.name = "tat", .type = ARGUMENT_INTEGER, .key_spec_index = -1, .flags = ARGUMENT_OPTIONAL},
    {0},
};

/* The words of a command, where the keys are among them, and how it replies. */
#define ARGUMENTS_OF_ONE(kind, reply, command_arity, documented)                             \
    .words = kind, .form = reply, .last_key = 1, .key_step = 1, .arity = command_arity,            \
    .arguments = documented, .complexity = "O(1)"
#define ARGUMENTS_OF_SEVERAL(kind, last, documented)                                                     \
    .words = kind, .form = IN_ROWS, .last_key = last, .key_step = WORDS_PER_FUNNEL, .arity = -6,         \
    .arguments = documented,                                                                             \
    .complexity = "O(N) where N is the number of rows and of slots that run, of each row at most limit + 1."

/* What a command does to its keys. */
#define FLAGS(command_flags, builtin, key_flags)                                                                \
    .flags = command_flags, .categories = builtin " throttle", .builtin_categories = builtin, .access = key_flags
#define READS_KEYS FLAGS("readonly fast", "read fast", KEY_READ_ONLY)
#define EMPTIES_KEYS FLAGS("write fast", "write fast", KEY_READ_WRITE | KEY_UPDATE)
#define FILLS_KEYS FLAGS("write deny-oom fast", "write fast", KEY_READ_WRITE | KEY_UPDATE)

/* The server does not say which command it calls, so each has its own function. */
#define FUNCTION(command) static int command##_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
FUNCTION(throttle);
FUNCTION(reserve);
FUNCTION(take);
FUNCTION(peek);
FUNCTION(charge);
FUNCTION(refund);

enum { THROTTLE_ROW, RESERVE_ROW, TAKE_ROW, PEEK_ROW, CHARGE_ROW, REFUND_ROW };

#define COMMAND(name, function, operation, arguments, flags, summary) {name, function, operation, summary, arguments, flags}

const struct command commands[] = {
    [THROTTLE_ROW] = COMMAND("cl.throttle", throttle_command, RESERVE,
        ARGUMENTS_OF_ONE(ONE_FUNNEL_OR_LESS, IN_SECONDS, -5, one_funnel), FILLS_KEYS,
        "Takes tokens from a funnel that leaks at a fixed rate, or says when they would fit."),
    [RESERVE_ROW] = COMMAND("cl.reserve", reserve_command, RESERVE,
        ARGUMENTS_OF_SEVERAL(FUNNELS_AND_LAST_WORD, -2, rows_and_max_wait), FILLS_KEYS,
        "Takes tokens and slots of all rows or of none, or reserves tokens of one funnel ahead of time."),
    [TAKE_ROW] = COMMAND("cl.take", take_command, TAKE,
        ARGUMENTS_OF_ONE(ONE_FUNNEL, IN_ROWS, 6, funnel_words), FILLS_KEYS,
        "Takes as many tokens from a funnel as fit, up to a quantity."),
    [PEEK_ROW] = COMMAND("cl.peek", peek_command, PEEK,
        ARGUMENTS_OF_SEVERAL(FUNNELS, -1, rows), READS_KEYS,
        "Says whether CL.RESERVE would take tokens and slots, and takes none."),
    [CHARGE_ROW] = COMMAND("cl.charge", charge_command, CHARGE,
        ARGUMENTS_OF_SEVERAL(FUNNELS, -1, rows), FILLS_KEYS,
        "Accounts for tokens and slots that are used, whatever the keys hold."),
    [REFUND_ROW] = COMMAND("cl.refund", refund_command, REFUND,
        ARGUMENTS_OF_SEVERAL(FUNNELS_AND_LAST_WORD, -2, rows_and_tat), EMPTIES_KEYS,
        "Gives tokens and slots back."),
#ifdef FUNNEL_DEBUG
    {.name = "funnel.debug", .function = debug_command, .flags = "admin", .last_key = 1, .key_step = 1},
#endif
};
/* clang-format on */

const int command_count = sizeof commands / sizeof commands[0];

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* How many funnels a call has, or 0 if the command does not take that number of words. */
ALWAYS_INLINE uint32_t count_funnels(const struct command *command, int argc)
{
    int words = argc - 1;
    if (command->words == ONE_FUNNEL) return words == WORDS_PER_FUNNEL;
    if (command->words == ONE_FUNNEL_OR_LESS) return words == WORDS_PER_FUNNEL || words == WORDS_PER_FUNNEL - 1;
    int funnels = words / WORDS_PER_FUNNEL, more = words % WORDS_PER_FUNNEL;
    if (funnels > MOST_FUNNELS || more > (command->words == FUNNELS_AND_LAST_WORD)) return 0;
    return (uint32_t)funnels;
}

/* The words of a row among those of the command. */
static RedisModuleString **words_of(RedisModuleString **argv, uint32_t row)
{
    return argv + 1 + WORDS_PER_FUNNEL * row;
}

/* Go needs keys only to compare them with each other. A quantity that is left out is 1. */
ALWAYS_INLINE void read_arguments(struct call *call, RedisModuleString **argv, int argc, uint32_t length)
{
    int words = argc - 1;
    for (uint32_t i = 0; i < length; i++) {
        RedisModuleString **word = words_of(argv, i);
        struct funnel *funnel = &call->funnels[i];
        if (length > 1) funnel->key = text_of(word[0]);
        funnel->capacity = text_of(word[1]);
        funnel->count = text_of(word[2]);
        funnel->period = text_of(word[3]);
        funnel->quantity = words < WORDS_PER_FUNNEL ? (struct text){"1", 1} : text_of(word[4]);
    }
    int has_last_word = words > WORDS_PER_FUNNEL * (int)length;
    call->last_word = has_last_word ? text_of(argv[argc - 1]) : (struct text){NULL, 0};
}

/* A call goes into Go by go_parse and go_decide (enter_*.S), which lead to Parse and Decide of
 * package answer.
 *
 * It goes there twice, whatever the number of funnels: with all arguments, then
 * with all stored values. All keys are opened before any is written, and closed before
 * the write is replicated or notified.
 *
 * This is inlined into the function of each command because the compiler then knows the
 * command's row. */
ALWAYS_INLINE int answer(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, const struct command *command)
{
    const uint32_t length = count_funnels(command, argc);
    if (length == 0) return redis.WrongArity(ctx);
    /* Not cleared: every field is set before it is read. */
    struct call call;
    call.operation = command->operation;
    call.form = command->form;
    call.length = length;
    call.limit_surplus = command->form == IN_SECONDS ? compat_surplus : 0;
    read_arguments(&call, argv, argc, length);
    go_parse(&call);
    if (call.verdict != VERDICT_PARSED) return reply(ctx, &call);

    /* Opened for writing although many calls write nothing, because one lookup then serves
     * both. The module has turned the implicit "key was modified" off, so closing the key
     * leaves no trace. */
    RedisModuleKey *keys[MOST_FUNNELS];
    int mode = command->operation == PEEK ? REDISMODULE_READ : REDISMODULE_READ | REDISMODULE_WRITE;
    for (uint32_t i = 0; i < length; i++) keys[i] = redis.OpenKey(ctx, words_of(argv, i)[0], mode);
    call.now = clock_nanoseconds();
    for (uint32_t i = 0; i < length; i++) key_read(&call.funnels[i], keys[i], words_of(argv, i), call.now);
    go_decide(&call);
    for (uint32_t i = 0; i < length; i++) {
        if (call.writes > 0) key_write(keys[i], &call.funnels[i], words_of(argv, i), call.now);
        redis.CloseKey(keys[i]);
    }
    if (call.writes > 0) {
        for (uint32_t i = 0; i < length; i++) key_replicate(ctx, words_of(argv, i), &call.funnels[i]);
        for (uint32_t i = 0; i < length; i++) key_notify(ctx, words_of(argv, i)[0], &call.funnels[i]);
    }
    return reply(ctx, &call);
}

/* clang-format off */
FUNCTION(throttle) { return answer(ctx, argv, argc, &commands[THROTTLE_ROW]); }
FUNCTION(reserve) { return answer(ctx, argv, argc, &commands[RESERVE_ROW]); }
FUNCTION(take) { return answer(ctx, argv, argc, &commands[TAKE_ROW]); }
FUNCTION(peek) { return answer(ctx, argv, argc, &commands[PEEK_ROW]); }
FUNCTION(charge) { return answer(ctx, argv, argc, &commands[CHARGE_ROW]); }
FUNCTION(refund) { return answer(ctx, argv, argc, &commands[REFUND_ROW]); }
/* clang-format on */
