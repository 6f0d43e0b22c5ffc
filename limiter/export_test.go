// What the tests see of the package beyond its exported names.

package limiter

import "time"

// NewOnClock is New with a monotonic clock.
func NewOnClock(rdb Client, now func() time.Duration, options ...Option) *Limiter {
	l := newLocal(now, options)
	l.ask(rdb)
	return l
}
