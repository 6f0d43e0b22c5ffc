#ifndef FUNNEL_CALL_H
#define FUNNEL_CALL_H

/* What crosses the boundary between C and Go, and how.
 *
 * A command crosses twice: go_parse validates the arguments, before a key is
 * touched; go_decide takes the stored values and the time, and decides. Both get one
 * structure. Package throttle has the same structures in Go, and the compiler sees to
 * it that the two agree (layout.go).
 *
 * A structure lives on the stack of the command, and the bytes that it
 * points to belong to the server. Go reads and writes them during a crossing
 * and keeps no pointer afterwards. */

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. Go reads it as a string, which is why
 * the fields come in this order. */
struct text {
    const char *bytes;
    size_t length;
};

enum stored {
    STORED_NOTHING,    /* there is no such key */
    STORED_STRING,     /* the key holds the string in stored_value */
    STORED_OTHER_TYPE, /* the key holds a list, a hash, ... */
};

enum write {
    WRITE_NOTHING,
    WRITE_TAT,      /* tat and expiry are set */
    WRITE_DELETION, /* the funnel is empty: the key is to be deleted */
};

enum verdict {
    VERDICT_ERROR,   /* message holds the reply */
    VERDICT_PARSED,  /* by go_parse: the arguments are fine */
    VERDICT_LIMITED, /* this and all that follow: the reply is set */
    VERDICT_PEEKED,  /* by CL.PEEK, or with quantity 0 */
    VERDICT_ALLOWED,
    VERDICT_CHARGED,
    VERDICT_REFUNDED,
    VERDICT_COUNT,
};

enum {
    REPLY_LENGTH = 5,
    ASK_LENGTH = 11,
    DECIMAL_CAPACITY = 20, /* of 9223372036.854775807 */
    MESSAGE_CAPACITY = 512,
    MOST_FUNNELS = 64,
};

/* A number in decimal: the bytes from start up to end. */
struct decimal {
    uint32_t start, end;
    char bytes[DECIMAL_CAPACITY];
};

/* What Go alone reads and writes: the question to package gcra, and its answer. */
struct ask {
    int64_t of_go[ASK_LENGTH];
};

/* One funnel of a call. */
struct funnel {
    struct text key, capacity, count, period, quantity; /* from C, for go_parse */

    enum stored stored; /* from C, for go_decide */
    enum write write;   /* from go_decide */
    struct text stored_value;

    int64_t expiry_milliseconds; /* Unix time at which the funnel has drained */
    struct decimal tat, expiry;  /* the words of the replicated SET */
};

/* From both crossings. */
struct outcome {
    enum verdict verdict;
    uint32_t funnel;                /* of Go alone */
    char message[MESSAGE_CAPACITY]; /* an error reply, NUL-terminated */
};

/* A call of CL.THROTTLE, which does not fill in the key. */
struct throttle_call {
    int64_t limit_surplus; /* limit minus capacity: 1 in redis-cell mode, else 0 */
    int64_t now;           /* nanoseconds since the epoch, for go_decide */
    struct funnel funnel;
    struct ask ask;
    struct outcome outcome;
    int64_t reply[REPLY_LENGTH];
};

enum funnels_command { RESERVE, PEEK, CHARGE, REFUND };

/* What the reply says of one funnel. */
struct row {
    int64_t limited, limit, remaining;
    struct decimal wait, reset_after;
};

/* A call of CL.RESERVE, CL.PEEK, CL.CHARGE or CL.REFUND. */
struct funnels_call {
    enum funnels_command command;
    uint32_t length; /* how many funnels there are, at most MOST_FUNNELS */
    int64_t limit_surplus, now;
    struct text max_wait; /* bytes is NULL when it was left out */
    int64_t longest_wait; /* of Go alone */

    struct outcome outcome;
    int64_t writes; /* how many of the keys are to be written */
    int64_t limited;
    struct decimal wait;

    struct ask asks[MOST_FUNNELS];
    struct funnel funnels[MOST_FUNNELS];
    struct row rows[MOST_FUNNELS];
};

/* The entry points into Go (docs/go-runtime.md). The program funnel-finish points them
 * to the Go functions of the same names; before, they point to a function that does
 * nothing.
 *
 * Volatile, because no line of C ever assigns to them: the compiler would take the
 * initial value for the only one. */
typedef void (*volatile go_function)(void *call);
extern go_function go_parse, go_decide;                 /* of a struct throttle_call */
extern go_function go_parse_funnels, go_decide_funnels; /* of a struct funnels_call */

/* Tests the entry points by calls whose answers are known. Returns NULL, or what is
 * wrong: a string constant. */
const char *prove_go(void);

#endif
