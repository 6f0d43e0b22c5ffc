package limiter

import (
	"fmt"
	"strconv"
	"time"

	"funnel/gcra"
)

// A Limit is a rate and a capacity: count tokens leak per period, and up to capacity
// tokens can be taken at once. Make one with [PerSecond], [PerMinute],
// [PerHour], [PerDay] or [Per]; the zero Limit is not valid.
type Limit struct {
	count    int
	period   time.Duration
	capacity int
}

// PerSecond allows count tokens per second, all of which may be taken at once; see
// [Limit.Burst]. Count is at least 1 and at most 1e9.
func PerSecond(count int) Limit { return Per(count, time.Second) }

// PerMinute allows count tokens per minute, as [PerSecond] does per second.
func PerMinute(count int) Limit { return Per(count, time.Minute) }

// PerHour allows count tokens per hour, as [PerSecond] does per second.
func PerHour(count int) Limit { return Per(count, time.Hour) }

// PerDay allows count tokens per 24 hours, as [PerSecond] does per second.
func PerDay(count int) Limit { return Per(count, 24*time.Hour) }

// Per allows count tokens per period, all of which may be taken at once; see
// [Limit.Burst]. Count and period are at least 1, and there is at most one token per
// nanosecond: a method of [Limiter] returns an error of package gcra for others.
func Per(count int, period time.Duration) Limit {
	return Limit{count: count, period: period, capacity: count}
}

// Burst returns the same rate for a funnel of that capacity, at least 1: how many
// tokens may be taken at once. Without Burst it is as many as leak per period.
func (l Limit) Burst(capacity int) Limit {
	l.capacity = capacity
	return l
}

// Count is the number of tokens that leak per period.
func (l Limit) Count() int { return l.count }

// Period is the time in which count tokens leak.
func (l Limit) Period() time.Duration { return l.period }

// Capacity is the number of tokens that fit into the empty funnel.
func (l Limit) Capacity() int { return l.capacity }

// IsZero reports whether this is the zero Limit, which is not valid.
func (l Limit) IsZero() bool { return l == Limit{} }

// String returns the limit for logs and errors: "30 per minute, burst 15".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %s, burst %d", l.count, periodName(l.period), l.capacity)
}

func periodName(period time.Duration) string {
	switch period {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	default:
		return period.String()
	}
}

// rate is the limit as a rate of package gcra.
func (l Limit) rate() (gcra.Rate, error) {
	rate, err := gcra.NewRate(int64(l.capacity), int64(l.count), int64(l.period))
	if err != nil {
		return rate, fmt.Errorf("limiter: a limit of %v: %w", l, err)
	}
	return rate, nil
}

// seconds is the period as CL.THROTTLE takes it: exact, and without a fraction if
// possible.
func (l Limit) seconds() string {
	seconds, nanoseconds := l.period/time.Second, l.period%time.Second
	if nanoseconds == 0 {
		return strconv.Itoa(int(seconds))
	}
	return fmt.Sprintf("%d.%09d", seconds, nanoseconds)
}
