#include "clock.h"

#include <time.h>

#ifdef FUNNEL_DEBUG
int64_t clock_override = -1;
#endif

int64_t clock_nanoseconds(void)
{
#ifdef FUNNEL_DEBUG
    if (clock_override >= 0) return clock_override;
#endif
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
