#ifndef FUNNEL_CALL_H
#define FUNNEL_CALL_H

/* What crosses the boundary between C and Go: one structure, one crossing per
 * command. C fills the upper half, Go the lower half. Package throttle has the same
 * structure in Go, and the compiler sees to it that the two agree (layout.go).
 *
 * The structure lives on the stack of throttle_command, and the bytes that it
 * points to belong to the server. Go reads and writes them during the crossing
 * and keeps no pointer afterwards. */

#include <stddef.h>
#include <stdint.h>

/* Bytes of somebody else, not terminated. Go reads it as a string, which is why
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
    VERDICT_REFUSED, /* an error: message holds the reply */
    VERDICT_LIMITED, /* reply is set, nothing is to be written */
    VERDICT_LOOKED,  /* allowed with quantity 0: likewise */
    VERDICT_ALLOWED, /* reply, tat and expiry are set, and to be written */
};

enum {
    REPLY_LENGTH = 5,
    DIGITS_CAPACITY = 20, /* 2^63-1 has 19 digits */
    MESSAGE_CAPACITY = 512,
};

/* A number in decimal: the last `length` of the bytes. */
struct digits {
    size_t length;
    char bytes[DIGITS_CAPACITY];
};

struct throttle_call {
    /* From C. */
    struct text capacity, count, period, quantity;
    enum stored stored;
    struct text stored_value;
    int64_t now;           /* nanoseconds since the epoch */
    int64_t limit_surplus; /* limit minus capacity: 1 in redis-cell mode, else 0 */

    /* From Go. */
    enum verdict verdict;
    int64_t reply[REPLY_LENGTH];
    int64_t expiry_milliseconds; /* Unix time at which the funnel has drained */
    struct digits tat, expiry;   /* the words of the replicated SET */
    char message[MESSAGE_CAPACITY]; /* an error reply, zero terminated */
};

#endif
