#ifndef FUNNEL_CLOCK_H
#define FUNNEL_CLOCK_H

#include <stdint.h>

/* Nanoseconds since the Unix epoch by the machine's real-time clock, which the
 * server's own expiry follows. The server's API has only milliseconds, so the
 * clock is read here. */
int64_t clock_nanoseconds(void);

#ifdef FUNNEL_DEBUG
/* The time that FUNNEL.DEBUG has set, or -1 for the machine's. */
extern int64_t clock_override;
#endif

#endif
