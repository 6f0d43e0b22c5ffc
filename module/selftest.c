#include "call.h"

#include <string.h>

static int is_text(const struct decimal *decimal, const char *text)
{
    size_t length = strlen(text);
    return decimal->end - decimal->start == length && memcmp(decimal->bytes + decimal->start, text, length) == 0;
}

/* Reserves a token of a funnel of 15 that leaks 30 tokens per minute and already holds one. */
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
        .string.stored = {"1700000002000000001", 19},
    };
    go_parse(call);
    if (call->verdict == VERDICT_PARSED) go_decide(call);
}

static int writes_as_known(const struct call *call)
{
    const struct row *row = &call->rows[0];
    return call->verdict == VERDICT_ALLOWED && call->writes == 1 && row->write == WRITE_STATE &&
           is_text(&row->string.value, "1700000004000000001") && is_text(&row->string.expiry, "1700000004001");
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

/* Reports whether a call that overwrites every register leaves the registers alone that C expects a
 * function to preserve, and whether Go finds 0 in the register that it expects to be 0. The
 * compiler has to keep the values below in registers: it cannot compute them, because they come
 * from volatile variables. */
static int enters_as_agreed(void)
{
    static volatile int64_t at = 1;
    static volatile double point = 1;
    int64_t a = at, b = at + 1, c = at + 2, d = at + 3, e = at + 4, f = at + 5, g = at + 6, h = at + 7, i = at + 8,
            j = at + 9;
    double p = point, q = point + 1, r = point + 2, s = point + 3, t = point + 4, u = point + 5, v = point + 6,
           w = point + 7;
#ifdef __x86_64__
    __asm__ volatile("pcmpeqd %%xmm15, %%xmm15" ::: "xmm15"); /* otherwise it may be 0 by chance */
#endif
    int64_t zero[2] = {1, 1};
    go_overwrite(zero);
    return zero[0] == 0 && zero[1] == 0 &&
           a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + j * 10 == 385 &&
           p + q * 2 + r * 3 + s * 4 + t * 5 + u * 6 + v * 7 + w * 8 == 204;
}

const char *check_go(void)
{
    if (go_code == NULL)
        return "this file was not linked by funnel-link: build funnel.so with ./build.sh build, then restart the "
               "server: loading this file has started a Go runtime in it";
    if (!enters_as_agreed())
        return "this file is damaged: its entry into Go mixes up registers; build it again with ./build.sh build";
    if (!answers_in_seconds() || !answers_in_rows())
        return "this file is damaged: its Go code gives wrong answers; build it again with ./build.sh build";
    return NULL;
}
