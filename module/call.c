#include "call.h"

#include <string.h>

/* The initial value of the entry points into Go, until funnel-finish replaces it. */
static void not_finished(struct call *call)
{
    (void)call;
}

go_function go_parse = not_finished;
go_function go_decide = not_finished;

/* funnel-finish replaces the function that starts the Go runtime, when the library is
 * loaded, by this one. */
__attribute__((used)) static void start_nothing(void)
{
}

static int is_text(const struct decimal *decimal, const char *text)
{
    size_t length = strlen(text);
    return decimal->end - decimal->start == length && memcmp(decimal->bytes + decimal->start, text, length) == 0;
}

/* Reserves a token of a funnel of 15 that leaks 30 per minute and already holds one. */
static void ask_known(struct call *call, enum form form)
{
    memset(call, 0, sizeof *call);
    call->operation = RESERVE;
    call->form = form;
    call->length = 1;
    call->now = 1700000000000000001;
    if (form == IN_ROWS) call->last_word = (struct text){"0.5", 3};
    call->rows[0] = (struct row){
        .words = {{"k", 1}, {"15", 2}, {"30", 2}, {"60", 2}, {"1", 1}},
        .stored = STORED_OF_KIND,
        .funnel.stored = {"1700000002000000001", 19},
    };
    go_parse(call);
    if (call->verdict == VERDICT_PARSED) go_decide(call);
}

static int writes_as_known(const struct call *call)
{
    const struct row *row = &call->rows[0];
    return call->verdict == VERDICT_ALLOWED && call->writes == 1 && row->write == WRITE_STATE &&
           is_text(&row->funnel.tat, "1700000004000000001") && is_text(&row->funnel.expiry, "1700000004001");
}

static int answers_in_seconds(void)
{
    static const int64_t expected[SECONDS_LENGTH] = {0, 15, 13, -1, 4};
    struct call call;
    ask_known(&call, IN_SECONDS);
    return writes_as_known(&call) && memcmp(call.seconds, expected, sizeof expected) == 0;
}

static int answers_in_rows(void)
{
    struct call call;
    ask_known(&call, IN_ROWS);
    const struct row_reply *reply = &call.replies[0];
    return writes_as_known(&call) && call.limited == 0 && is_text(&call.wait, "0") && reply->limited == 0 &&
           reply->limit == 15 && reply->remaining == 13 && is_text(&reply->wait, "0") &&
           is_text(&reply->reset_after, "4") && call.rows[0].funnel.has_receipt;
}

const char *check_go(void)
{
    if (go_parse == not_finished || go_decide == not_finished)
        return "this file comes straight from the Go linker: build funnel.so with ./build.sh build, then restart "
               "the server, because this file has started the Go runtime in it";
    if (!answers_in_seconds() || !answers_in_rows())
        return "this file is damaged: its Go code gives wrong answers; build it again with ./build.sh build";
    return NULL;
}
