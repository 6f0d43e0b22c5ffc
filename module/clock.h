#ifndef FUNNEL_CLOCK_H
#define FUNNEL_CLOCK_H

#include <stdint.h>

/* Nanoseconds since the Unix epoch by the machine's real-time clock, the one
 * that the server's own expiry follows. The server's API tells milliseconds
 * only, so the clock is read here. */
int64_t clock_nanoseconds(void);

#endif
