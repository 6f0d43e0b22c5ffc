#ifndef FUNNEL_CALL_H
#define FUNNEL_CALL_H

/* What crosses the boundary between C and Go, and how.
 *
 * A command crosses twice: go_parse validates the arguments, before the key is
 * touched; go_decide takes the stored value and the time, and decides. Both get one
 * structure. Package throttle has the same structure in Go, and the compiler sees to
 * it that the two agree (layout.go).
 *
 * The structure lives on the stack of throttle_command, and the bytes that it
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

enum verdict {
    VERDICT_ERROR,   /* message holds the reply */
    VERDICT_PARSED,  /* by go_parse: the arguments are fine */
    VERDICT_LIMITED, /* reply is set, nothing is to be written */
    VERDICT_PEEKED,  /* quantity 0: likewise */
    VERDICT_ALLOWED, /* reply, tat and expiry are set, and to be written */
};

enum {
    REPLY_LENGTH = 5,
    RATE_LENGTH = 3,
    DIGITS_CAPACITY = 20, /* 2^63-1 has 19 digits */
    MESSAGE_CAPACITY = 512,
};

/* A number in decimal: the last `length` of the bytes. */
struct digits {
    size_t length;
    char bytes[DIGITS_CAPACITY];
};

struct throttle_call {
    /* From C, for go_parse. */
    struct text capacity, count, period, quantity;
    int64_t limit_surplus; /* limit minus capacity: 1 in redis-cell mode, else 0 */

    /* From go_parse, for go_decide. */
    int64_t rate[RATE_LENGTH];
    int64_t tokens; /* the quantity as a number */

    /* From C, for go_decide. */
    enum stored stored;
    struct text stored_value;
    int64_t now; /* nanoseconds since the epoch */

    /* From both. */
    enum verdict verdict;
    char message[MESSAGE_CAPACITY]; /* an error reply, NUL-terminated */

    /* From go_decide. */
    int64_t reply[REPLY_LENGTH];
    int64_t expiry_milliseconds; /* Unix time at which the funnel has drained */
    struct digits tat, expiry;   /* the words of the replicated SET */
};

/* The entry points into Go (docs/go-runtime.md). The program funnel-finish points them
 * to the Go functions of the same names; before, they point to a function that does
 * nothing.
 *
 * Volatile, because no line of C ever assigns to them: the compiler would take the
 * initial value for the only one. */
typedef void (*volatile go_function)(struct throttle_call *call);
extern go_function go_parse, go_decide;

/* Tests the entry points by a call whose answer is known. Returns NULL, or what is
 * wrong: a string constant. */
const char *prove_go(void);

#endif
