package limiter

import (
	"errors"
	"fmt"
	"time"

	"funnel/gcra"
	"funnel/limiter/internal/calendar"
	"funnel/quota"
)

// A Limit is a rate and a capacity: Count tokens leak per Period, and up to Capacity tokens can be
// taken at once. The first period lets up to Capacity + Count - 1 tokens through, the capacity at
// once and the others as tokens leak: PerMinute(100) lets 199 through, and
// PerMinute(100).WithCapacity(10) lets 109 through. [AtMost] lets no more through than its number.
//
// Capacity, Count and Period are at least 1, at most one token leaks per nanosecond, and a full
// funnel drains within 292 years. If a limit is not valid, as the zero Limit is not, methods of
// [Limiter] return [ErrInvalid] with the error of [Limit.Validate] inside, most often one of
// package gcra.
//
// A Limit may also be a quota (see [Daily] and [Window]): up to Capacity tokens, at least 0, may be
// used in each period, and Count and Period are 0. Limits are comparable.
type Limit struct {
	Count    int
	Period   time.Duration
	Capacity int
	calendar calendar.Calendar // of a quota
	bound    bound             // of AtMost
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

// WithCapacity returns the limit with another capacity, which is the number of tokens that may be
// taken at once. A smaller capacity lets fewer tokens through in the first period: see [Limit]. A
// limit of [AtMost] becomes invalid.
func (l Limit) WithCapacity(capacity int) Limit {
	l.Capacity = capacity
	l.bound.hasCapacity = l.bound.isSet
	return l
}

// String returns the limit for logs and errors: "30 per minute, capacity 15", "1000 per day in
// Europe/Berlin", or "at most 5 in any 15m0s, 3 at once".
func (l Limit) String() string {
	if l.isQuota() {
		return fmt.Sprintf("%d %v", l.Capacity, l.calendar)
	}
	if l.bound.isSet {
		return l.bound.String()
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

// Validate returns an error that says why the limit is not valid, or nil.
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

// errNoRate is the error of [Limit.Rate] for a quota.
var errNoRate = errors.New("a quota has no rate: nothing leaks before its period ends")

// Rate returns the limit in the form that package gcra computes with. It returns an error, of
// package gcra or of [AtMost], if the limit is not valid, and an error for a quota, which has no
// rate.
func (l Limit) Rate() (gcra.Rate, error) {
	if l.isQuota() {
		return gcra.Rate{}, errNoRate
	}
	err := l.checkBound()
	if err != nil {
		return gcra.Rate{}, err
	}
	if l.Count < 1 { // before the capacity, which is the count without [Limit.WithCapacity]
		return gcra.Rate{}, gcra.ErrCount
	}
	return gcra.NewRate(int64(l.Capacity), int64(l.Count), int64(l.Period))
}
