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

enum kind { FUNNEL, SLOTS };

enum stored {
    STORED_NOTHING,    /* there is no such key */
    STORED_VALUE,      /* of a funnel, the string in stored_value; of slots, a sorted set */
    STORED_OTHER_TYPE, /* the key holds a list, a hash, ... */
};

enum write {
    WRITE_NOTHING,
    WRITE_TAT,      /* tat and expiry are set; of slots, expiry: when the holder's slot ends */
    WRITE_DELETION, /* the funnel is empty: delete the key; of slots, the holder's slot has ended */
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
    ITEM_LENGTH = 32,
    DECIMAL_CAPACITY = 24,
    MESSAGE_CAPACITY = 512,
    MOST_FUNNELS = 64,
};

/* A number in decimal: the bytes from start up to end. */
struct decimal {
    uint32_t start, end;
    char bytes[DECIMAL_CAPACITY];
};

/* Used by Go only: a row as package call sees it. */
struct item {
    int64_t opaque[ITEM_LENGTH];
};

/* What C reads and writes of a sorted set of slots. Ends are in milliseconds since the epoch. */
struct slots {
    int64_t limit; /* from go_parse */

    /* From C, for go_decide: when the holder's slot ends; how many slots run, at most limit + 1; when
     * the first and the last of the others end; 0 for none. The first is read only if limit or more
     * run: a call that is allowed does not wait. */
    int64_t own, running, first, last;

    /* Used by C only: whether there were ended slots, how many of them were removed, and what became
     * of the key's expiry. */
    int64_t some_ended, removed, expiry;
    enum { EXPIRY_KEPT, EXPIRY_SET, EXPIRY_REMOVED, KEY_GONE } change;
};

/* One row of a call: a funnel or slots. */
struct funnel {
    /* From C, for go_parse. Of slots: key, limit, the word SLOTS, ttl and holder. */
    struct text key, capacity, count, period, quantity;
    uint64_t compared_with, alike; /* used by Go only */

    enum kind kind;     /* from go_parse */
    enum stored stored; /* from C, for go_decide */
    enum write write;   /* from go_decide */
    struct text stored_value;
    struct slots slots;

    int64_t expiry_milliseconds; /* Unix time at which the funnel is empty, or the holder's slot ends */
    struct decimal tat, expiry;  /* the words of the replicated SET; of slots, held and that of ZADD */
};

/* The reply of one funnel. */
struct row {
    int64_t limited, limit, remaining;
    struct decimal wait, reset_after;
    int64_t has_receipt; /* 1: it is the funnel's tat, or held; 0: it is "0" */
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
