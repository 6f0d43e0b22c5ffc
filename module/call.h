#ifndef FUNNEL_CALL_H
#define FUNNEL_CALL_H

/* The structures that cross the boundary between C and Go.
 *
 * A command crosses twice: go_parse validates the arguments before a key is touched, and go_decide
 * decides by the stored values and the time. Both get the same structure. Package command has the
 * same structures in Go, and the compiler checks that they agree (layout.go).
 *
 * A structure lives on the stack of the command. The bytes that it points to belong to the server.
 * Go uses both only during a crossing, and keeps no pointer. */

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. The fields have the order of a string in Go, because Go reads
 * this structure as a string. */
struct text {
    const char *bytes;
    size_t length;
};

enum kind { FUNNEL, SLOTS, QUOTA, KIND_COUNT };

enum stored {
    STORED_NOTHING,    /* there is no such key */
    STORED_OF_KIND,    /* the type in which the row's kind keeps its state */
    STORED_OTHER_TYPE, /* the key holds a list, a hash, ... */
    STORED_IN_USE,     /* unknown: the server has the key in use, and does not open it for writing */
};

enum write {
    WRITE_NOTHING,
    WRITE_STATE,   /* the state is in the part of the row that has the kind's name */
    WRITE_REMOVAL, /* the row has no state any more */
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
    IN_ROWS,    /* a reply for each row, in exact times */
};

enum {
    SECONDS_LENGTH = 5,
    DECIDED_LENGTH = 42,    /* the size of a call.Row in Go, in units of 8 bytes (layout.go) */
    DECIMAL_CAPACITY = 24,  /* three times eight digits, since decimal.go writes eight at a time */
    MESSAGE_CAPACITY = 512, /* more than the longest error */
    WORDS_PER_ROW = 5,
    MAX_ROWS = 64, /* all lie on the stack, and the server serves nobody else meanwhile */
};

/* A number in decimal: the bytes from start up to end. */
struct decimal {
    uint32_t start, end;
    char bytes[DECIMAL_CAPACITY];
};

/* The string that keeps a funnel or a quota. */
struct string_key {
    /* From C, for go_decide. */
    struct text stored;    /* the value, which lives until the key is written or closed */
    int64_t stored_expiry; /* for a quota: Unix time in milliseconds at which the key expires, or below 1 */

    /* From go_decide. */
    struct decimal value;        /* the new value */
    int64_t expiry_milliseconds; /* Unix time at which the key expires after the call */
    struct decimal expiry;       /* the same time in decimal */
};

/* From go_decide. */
struct funnel {
    int64_t has_receipt; /* 1: the reply shows the new value as the receipt; 0: it shows "0" */
};

/* From go_decide. */
struct quota {
    struct decimal until; /* the end of the period that counted the call, in seconds, or "0" if none did */
};

/* The sorted set that keeps slots. Ends are Unix times in milliseconds. */
struct slots {
    int64_t limit; /* from go_parse */

    /* From C, for go_decide. An end is 0 if there is no such slot. */
    int64_t own;     /* the end of the holder's slot */
    int64_t running; /* the number of running slots, or limit + 1 if more run */
    int64_t first;   /* the first end of another holder's running slot; 0 if fewer than limit slots run */
    int64_t last;    /* the last end of another holder's running slot */

    /* From go_decide. */
    int64_t end_milliseconds; /* when the holder's slot ends after the call */
    struct decimal end;       /* the same time in decimal */
    struct decimal held;      /* how much longer the holder's slot would have run, in seconds */

    /* Used by C only. */
    int64_t some_ended; /* 1 if the set has slots that have ended, else 0 */
    int64_t removed;    /* how many of them the call has removed */
    int64_t expiry;     /* when the key expires after the call */
    enum { EXPIRY_KEPT, EXPIRY_SET, EXPIRY_REMOVED, KEY_GONE } change;
};

/* One row of a call. */
struct row {
    struct text words[WORDS_PER_ROW]; /* from C, for go_parse: the client's, alive until the reply */
    uint64_t compared_with, alike;    /* used by Go only */

    enum kind kind;     /* from go_parse */
    enum stored stored; /* from C, for go_decide */
    enum write write;   /* from go_decide */

    struct string_key string; /* if kind is FUNNEL or QUOTA */
    struct funnel funnel;     /* if kind is FUNNEL */
    struct slots slots;       /* if kind is SLOTS */
    struct quota quota;       /* if kind is QUOTA */
};

/* The reply of one row without its last element, which depends on the kind. */
struct row_reply {
    int64_t limited, limit, remaining;
    struct decimal wait, reset_after;
};

/* Used by Go only: a row as package internal/call decides it. */
struct decided {
    int64_t opaque[DECIDED_LENGTH];
};

/* A call of a command. */
struct call {
    enum operation operation;
    enum form form;
    uint32_t length;       /* how many rows there are, at most MAX_ROWS */
    int64_t limit_surplus; /* limit minus capacity: 1 for CL.THROTTLE in redis-cell mode, else 0 */
    int64_t now;           /* nanoseconds since the epoch, for go_decide */
    struct text last_word; /* max_wait or tat; bytes is NULL if it was left out */
    int64_t max_wait;      /* used by Go only */
    int64_t receipt;       /* used by Go only */

    enum verdict verdict;           /* from both crossings */
    uint32_t error_row;             /* used by Go only */
    char message[MESSAGE_CAPACITY]; /* an error reply, NUL-terminated */
    uint64_t message_length;        /* used by Go only */
    int64_t writes;                 /* how many keys to write */
    uint64_t compared_bytes;        /* used by Go only */

    /* The reply IN_SECONDS. */
    int64_t seconds[SECONDS_LENGTH];

    /* The reply IN_ROWS. */
    int64_t limited;
    int64_t taken; /* for CL.TAKE */
    struct decimal wait;
    struct row_reply replies[MAX_ROWS];

    struct row rows[MAX_ROWS];
    struct decided decided[MAX_ROWS];
};

/* Functions of Go, which run like functions of C (docs/go-runtime.md). Both borrow the call, and
 * the bytes that it points to, until they return. */
void go_parse(struct call *call);
void go_decide(struct call *call);

/* For check_go. Enters Go in the same way, stores the register that Go expects to be 0 in zero, and
 * overwrites every register. */
void go_overwrite(int64_t zero[2]);

/* The address of the Go function behind go_parse. It is NULL if funnel-link has not linked this
 * file: a call of go_parse or go_decide would then crash the server. */
extern const void *const go_code;

/* Tests the entry points with calls whose answers are known. Returns NULL, or a string
 * constant that says what is wrong. */
const char *check_go(void);

#endif
