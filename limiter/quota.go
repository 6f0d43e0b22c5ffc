package limiter

import (
	"fmt"
	"math/rand/v2"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/calendar"
)

// Daily is a quota: it allows limit tokens, at least 0, from the beginning of each day in a zone until the next day
// begins. Nothing leaks meanwhile, and nothing is saved up. Plans and budgets are sold so: 1,000 requests a day, a
// million tokens a month.
//
// A day begins at the first instant of its date in the zone, even if clocks skip midnight or show it twice. The zone
// must not be nil. Limits are equal if their zones have the same name and the same offsets.
//
// The clock of the caller tells which period runs, and the clock of Redis corrects it: a quota is not used twice
// because a clock is ahead, and not refused because it is behind. Programs that use one key must agree on the zone.
func Daily(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Days(zone)}
}

// Weekly allows limit tokens in each week, as [Daily] does in each day. A week begins on Monday, see
// [Limit.FromWeekday].
func Weekly(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Weeks(zone)}
}

// Monthly allows limit tokens in each month, as [Daily] does in each day. A month begins on the first, see
// [Limit.From].
func Monthly(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Months(zone)}
}

// Until allows limit tokens, at least 0, until an instant after 1970 and before 2262. After it calls are limited, even
// Charge, which accounts for nothing then: RetryAfter is [NoRetry]. Nobody is asked about the other rows of such a call,
// even by [Limiter.PeekAll]: their Results tell no state.
func Until(limit int, end time.Time) Limit {
	return Limit{Capacity: limit, calendar: calendar.Once(end)}
}

// From has the months of [Monthly] begin on another day: from 1 to 31, or the last day of a month that is shorter. A
// month from the 31st ends on 28 February, and the next one on 31 March. For other limits it makes the limit invalid.
func (l Limit) From(day int) Limit {
	l.calendar = l.calendar.From(day)
	return l
}

// FromWeekday has the weeks of [Weekly] begin on another day. For other limits it makes the limit invalid.
func (l Limit) FromWeekday(day time.Weekday) Limit {
	l.calendar = l.calendar.FromWeekday(day)
	return l
}

// PeriodAt returns the period of a quota that runs at an instant: from begin on, until the next one begins at end. The
// period of [Until] has no begin, and a rate, or a limit that is not valid, has no period: these are the zero Time.
func (l Limit) PeriodAt(at time.Time) (begin, end time.Time) {
	if !l.isQuota() || l.Validate() != nil {
		return time.Time{}, time.Time{}
	}
	return l.calendar.Period(at)
}

func (l Limit) isQuota() bool { return !l.calendar.IsZero() }

// forPeriodOf has a call about one quota concern the period in which a Result was counted.
func (q *query) forPeriodOf(result *Result) {
	q.Rows[0].Quota.Calendar = calendar.Once(time.Unix(0, result.Receipt))
}

// checkMaxWait rejects a call that reserves tokens of a quota for later.
func (q *query) checkMaxWait(key string) {
	if q.MaxWait > 0 && q.Rows[0].Kind == call.Quota {
		q.reject(fmt.Errorf("limiter: key %q: tokens of a quota cannot be reserved for later: "+
			"the max wait must be 0, not %v; WaitN waits for the next period", key, q.MaxWait))
	}
}

// spread is within which time those who wait for a quota ask again: all wait for the same instant.
const spread = time.Second

// pause is how long the caller of a limited call sleeps before it asks again, at most maxWait.
func pause(results Results, maxWait time.Duration) time.Duration {
	after := results.RetryAfter()
	for i := range results {
		if r := &results[i]; r.Limited() && r.Limit.isQuota() && r.Source != FromClosed {
			return after + rand.N(min(spread, maxWait-after)+1)
		}
	}
	return after
}
