#ifndef FUNNEL_CALL_H
#define FUNNEL_CALL_H

/* The structures that cross the boundary between C and Go.
 *
 * A command crosses twice: go_parse validates the arguments, before a key is
 * touched; go_decide takes the stored values and the time, and decides. Both get the
 * same structure. Package answer has the same structures in Go, and the compiler
 * checks that they agree (layout.go).
 *
 * A structure lives on the stack of the command. The bytes that it points to belong
 * to the server. Go uses both only during a crossing, and keeps no pointer. */

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. The fields are in this order because Go reads
 * this as a string. */
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
    WRITE_DELETION, /* the funnel is empty: delete the key */
};

enum verdict {
    VERDICT_ERROR,   /* message holds the reply */
    VERDICT_PARSED,  /* by go_parse: the arguments are fine */
    VERDICT_LIMITED, /* from here on: the reply is set */
    VERDICT_PEEKED,  /* by CL.PEEK, or with quantity 0 */
    VERDICT_ALLOWED,
    VERDICT_CHARGED,
    VERDICT_REFUNDED,
    VERDICT_COUNT,
};

enum operation { RESERVE, TAKE, PEEK, CHARGE, REFUND };

enum form {
    IN_SECONDS, /* five integers, of one funnel, in whole seconds: CL.THROTTLE */
    IN_ROWS,    /* a row for each funnel, in exact times */
};

enum {
    SECONDS_LENGTH = 5,
    ITEM_LENGTH = 13,
    DECIMAL_CAPACITY = 24,
    MESSAGE_CAPACITY = 512,
    MOST_FUNNELS = 64,
};

/* A number in decimal: the bytes from start up to end. */
struct decimal {
    uint32_t start, end;
    char bytes[DECIMAL_CAPACITY];
};

/* Used by Go only: a funnel as package gcra sees it. */
struct item {
    int64_t opaque[ITEM_LENGTH];
};

/* One funnel of a call. */
struct funnel {
    struct text key, capacity, count, period, quantity; /* from C, for go_parse */
    uint64_t compared_with, alike;                      /* used by Go only */

    enum stored stored; /* from C, for go_decide */
    enum write write;   /* from go_decide */
    struct text stored_value;

    int64_t expiry_milliseconds; /* Unix time at which the funnel is empty */
    struct decimal tat, expiry;  /* the words of the replicated SET */
};

/* The reply of one funnel. */
struct row {
    int64_t limited, limit, remaining;
    struct decimal wait, reset_after;
    int64_t has_receipt; /* 1: it is the funnel's tat; 0: it is "0" */
};

/* A call of a command. */
struct call {
    enum operation operation;
    enum form form;
    uint32_t length;       /* how many funnels there are, at most MOST_FUNNELS */
    int64_t limit_surplus; /* limit minus capacity: 1 for CL.THROTTLE in redis-cell mode, else 0 */
    int64_t now;           /* nanoseconds since the epoch, for go_decide */
    struct text last_word; /* max_wait or tat; bytes is NULL if it was left out */
    int64_t max_wait;      /* used by Go only */
    int64_t receipt;       /* used by Go only */

    enum verdict verdict;           /* from both crossings */
    uint32_t error_funnel;          /* used by Go only */
    char message[MESSAGE_CAPACITY]; /* an error reply, NUL-terminated */
    uint64_t message_length;        /* used by Go only */
    int64_t writes;                 /* how many keys to write */

    int64_t seconds[SECONDS_LENGTH]; /* the reply IN_SECONDS */
    int64_t limited;                 /* with wait, rows and, of CL.TAKE, taken, the reply IN_ROWS */
    int64_t taken;
    struct decimal wait;

    struct item items[MOST_FUNNELS];
    struct funnel funnels[MOST_FUNNELS];
    struct row rows[MOST_FUNNELS];
};

/* The entry points into Go (docs/go-runtime.md). They point to a function that does
 * nothing until funnel-finish points them to the Go functions of the same names.
 *
 * Volatile, because no C code assigns to them: the compiler would assume that they keep
 * their initial value. */
typedef void (*volatile go_function)(struct call *call);
extern go_function go_parse, go_decide;

/* Tests the entry points with calls whose answers are known. Returns NULL, or a string
 * constant that says what is wrong. */
const char *check_go(void);

#endif
