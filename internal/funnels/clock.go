package funnels

import "time"

// A Clock reads the time as package gcra wants it: in nanoseconds since the Unix
// epoch.
type Clock struct {
	now   func() time.Time
	start time.Time
}

// StartClock reads the time from now, or from time.Now if it is nil.
func StartClock(now func() time.Time) Clock {
	if now == nil {
		now = time.Now
	}
	return Clock{now: now, start: now()}
}

// Instant adds the time since the start, which time.Now measures with a monotonic
// clock: a wall clock that is set back by an hour would limit every call for that
// hour. Of other clocks it is the plain difference.
func (c Clock) Instant() int64 { return c.at(c.now()) }

// at is the instant of a time that the same clock has given.
func (c Clock) at(time time.Time) int64 {
	return c.start.UnixNano() + int64(time.Sub(c.start))
}
