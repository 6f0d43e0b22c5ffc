#include "call.h"

#include <string.h>

/* The initial value of go_parse and go_decide, until funnel-finish replaces it. */
static void not_finished(struct throttle_call *call)
{
    (void)call;
}

go_function go_parse = not_finished;
go_function go_decide = not_finished;

/* The program funnel-finish puts this function in the place of the one that starts
 * the Go runtime when the library is loaded. */
__attribute__((used)) static void start_nothing(void)
{
}

static int is_text(const struct digits *digits, const char *text)
{
    size_t length = strlen(text);
    return digits->length == length && memcmp(digits->bytes + DIGITS_CAPACITY - length, text, length) == 0;
}

const char *prove_go(void)
{
    if (go_parse == not_finished || go_decide == not_finished)
        return "this file was not finished: funnel-finish has to see what the Go linker wrote; "
               "build it with ./build.sh build, and restart the server, which the Go runtime does not leave";

    /* The funnel of 15 tokens that leaks 30 in a minute, with one token in it. */
    static const int64_t expected[REPLY_LENGTH] = {0, 15, 13, -1, 4};
    static const struct throttle_call question = {
        .capacity = {"15", 2},
        .count = {"30", 2},
        .period = {"60", 2},
        .quantity = {"1", 1},
        .stored = STORED_STRING,
        .stored_value = {"1700000002000000001", 19},
        .now = 1700000000000000001,
    };
    struct throttle_call call = question;
    go_parse(&call);
    if (call.verdict == VERDICT_PARSED) go_decide(&call);
    if (call.verdict != VERDICT_ALLOWED || memcmp(call.reply, expected, sizeof expected) != 0 ||
        !is_text(&call.tat, "1700000004000000001") || !is_text(&call.expiry, "1700000004001"))
        return "this file is damaged: its Go code answers wrongly; build it again with ./build.sh build";
    return NULL;
}
