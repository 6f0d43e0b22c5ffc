package local

import "time"

// A clock reads the time as package gcra wants it: in nanoseconds since the Unix
// epoch.
type clock struct {
	now   func() time.Time
	start time.Time
}

// startClock reads the time from now, or from time.Now if it is nil.
func startClock(now func() time.Time) clock {
	if now == nil {
		now = time.Now
	}
	return clock{now: now, start: now()}
}

// instant adds the time since the start, which time.Now measures with a monotonic
// clock: a wall clock that is set back by an hour would limit every call for that
// hour. Of other clocks it is the plain difference.
func (c clock) instant() int64 { return c.at(c.now()) }

// at is the instant of a time that the same clock has given.
func (c clock) at(time time.Time) int64 {
	return c.start.UnixNano() + int64(time.Sub(c.start))
}
