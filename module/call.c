#include "call.h"

#include <string.h>

/* The initial value of the entry points into Go, until funnel-finish replaces it. */
static void not_finished(void *call)
{
    (void)call;
}

go_function go_parse = not_finished;
go_function go_decide = not_finished;
go_function go_parse_funnels = not_finished;
go_function go_decide_funnels = not_finished;

/* The program funnel-finish puts this function in the place of the one that starts
 * the Go runtime when the library is loaded. */
__attribute__((used)) static void start_nothing(void)
{
}

static int is_text(const struct decimal *decimal, const char *text)
{
    size_t length = strlen(text);
    return decimal->end - decimal->start == length && memcmp(decimal->bytes + decimal->start, text, length) == 0;
}

/* The funnel of 15 tokens that leaks 30 in a minute, with one token in it. */
static const int64_t known_now = 1700000000000000001;
static const struct funnel known_funnel = {
    .capacity = {"15", 2},
    .count = {"30", 2},
    .period = {"60", 2},
    .quantity = {"1", 1},
    .stored = STORED_STRING,
    .stored_value = {"1700000002000000001", 19},
};

static int writes_as_known(const struct funnel *funnel)
{
    return funnel->write == WRITE_TAT && is_text(&funnel->tat, "1700000004000000001") &&
           is_text(&funnel->expiry, "1700000004001");
}

static int throttle_is_right(void)
{
    static const int64_t expected[REPLY_LENGTH] = {0, 15, 13, -1, 4};
    struct throttle_call call = {.now = known_now, .funnel = known_funnel};
    go_parse(&call);
    if (call.outcome.verdict == VERDICT_PARSED) go_decide(&call);
    return call.outcome.verdict == VERDICT_ALLOWED && memcmp(call.reply, expected, sizeof expected) == 0 &&
           writes_as_known(&call.funnel);
}

static int reserve_is_right(void)
{
    struct funnels_call call;
    memset(&call, 0, sizeof call);
    call.command = RESERVE;
    call.length = 1;
    call.now = known_now;
    call.max_wait = (struct text){"0.5", 3};
    call.funnels[0] = known_funnel;
    go_parse_funnels(&call);
    if (call.outcome.verdict == VERDICT_PARSED) go_decide_funnels(&call);
    const struct row *row = &call.rows[0];
    return call.outcome.verdict == VERDICT_ALLOWED && call.limited == 0 && is_text(&call.wait, "0") &&
           row->limited == 0 && row->limit == 15 && row->remaining == 13 && is_text(&row->wait, "0") &&
           is_text(&row->reset_after, "4") && writes_as_known(&call.funnels[0]);
}

const char *prove_go(void)
{
    if (go_parse == not_finished || go_decide == not_finished || go_parse_funnels == not_finished ||
        go_decide_funnels == not_finished)
        return "this file was not finished: funnel-finish has to see what the Go linker wrote; "
               "build it with ./build.sh build, and restart the server, which the Go runtime does not leave";
    if (!throttle_is_right() || !reserve_is_right())
        return "this file is damaged: its Go code answers wrongly; build it again with ./build.sh build";
    return NULL;
}
