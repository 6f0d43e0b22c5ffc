package limiter

import (
	"errors"
	"fmt"
	"time"

	"funnel/gcra"
	"funnel/limiter/internal/calendar"
	"funnel/quota"
)

// A Limit is a rate and a capacity: Count tokens leak per Period, and up to Capacity
// tokens can be taken at once. The first period lets up to Capacity + Count - 1 through: with
// PerMinute(100) these are 199, and with PerMinute(100).WithCapacity(10) 109.
//
// Capacity, Count and Period are at least 1, and there is at most one token per nanosecond. For
// others, the zero Limit among them, methods of [Limiter] return an error of package gcra.
//
// A Limit may also be a quota, see [Daily]: up to Capacity tokens, at least 0, are used in each period of a calendar.
// Count and Period are 0 then. Limits are comparable.
type Limit struct {
	Count    int
	Period   time.Duration
	Capacity int
	calendar calendar.Calendar // of a quota
}

// PerSecond allows count tokens per second. All may be taken at once, see [Limit.WithCapacity].
func PerSecond(count int) Limit { return Per(count, time.Second) }

// PerMinute allows count tokens per minute, as [PerSecond] does per second.
func PerMinute(count int) Limit { return Per(count, time.Minute) }

// PerHour allows count tokens per hour, as [PerSecond] does per second.
func PerHour(count int) Limit { return Per(count, time.Hour) }

// Per allows count tokens per period. All may be taken at once, see [Limit.WithCapacity].
func Per(count int, period time.Duration) Limit {
	return Limit{Count: count, Period: period, Capacity: count}
}

// Every allows one token per interval: at most one per nanosecond.
func Every(interval time.Duration) Limit { return Per(1, interval) }

// WithCapacity returns the same rate for a funnel of that capacity: how many tokens may be taken at once.
// A smaller one lets fewer tokens through in the first period, see [Limit].
func (l Limit) WithCapacity(capacity int) Limit {
	l.Capacity = capacity
	return l
}

// String returns the limit for logs and errors: "30 per minute, capacity 15", or "1000 per day in Europe/Berlin".
func (l Limit) String() string {
	if l.isQuota() {
		return fmt.Sprintf("%d %v", l.Capacity, l.calendar)
	}
	name, known := periodNames[l.Period]
	if !known {
		name = l.Period.String()
	}
	return fmt.Sprintf("%d per %s, capacity %d", l.Count, name, l.Capacity)
}

var periodNames = map[time.Duration]string{
	time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day",
}

// Validate returns why the limit is not valid, or nil.
func (l Limit) Validate() error {
	if !l.isQuota() {
		_, err := l.Rate()
		return err
	}
	if l.Capacity < 0 {
		return quota.ErrLimit
	}
	return l.calendar.Check()
}

// errNoRate is why a quota cannot be computed with as a rate.
var errNoRate = errors.New("a quota has no rate: nothing leaks before its period ends")

// Rate returns the limit as package gcra computes with it, or the error of package gcra that
// says why it is not valid. A quota has no rate, which is an error, too.
func (l Limit) Rate() (gcra.Rate, error) {
	if l.isQuota() {
		return gcra.Rate{}, errNoRate
	}
	if l.Count < 1 { // without [Limit.WithCapacity] it is the capacity, too
		return gcra.Rate{}, gcra.ErrCount
	}
	return gcra.NewRate(int64(l.Capacity), int64(l.Count), int64(l.Period))
}
