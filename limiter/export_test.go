// Tests use these names beside the exported names of the package.

package limiter

import "time"

// NewOnClock is New with a monotonic clock and a wall clock, or NewLocal if rdb is nil.
func NewOnClock(rdb Client, now func() time.Duration, wall func() time.Time, options ...Option) *Limiter {
	l := newLocal(now, wall, options)
	if rdb != nil {
		l.useRedis(rdb)
	}
	return l
}
