package limiter

import (
	"time"

	"funnel/limiter/internal/calendar"
)

// Daily returns a quota: it allows limit tokens, at least 0, in each day of a time zone. Nothing
// leaks during the day, and tokens that are not used are not saved up. Plans and budgets are sold
// like this: 1,000 requests a day, a million tokens a month.
//
// A day begins at the first instant of its date in the zone, even if clocks skip midnight or show
// it twice. The zone must not be nil. Limits are equal if their zones have the same name and the
// same offsets.
//
// The clock of the caller tells which period runs, and the clock of Redis corrects it: a caller
// whose clock is ahead does not use a quota twice, and a caller whose clock is behind is not
// refused. Programs that use one key must use the same zone.
func Daily(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Days(zone)}
}

// Weekly allows limit tokens in each week, as [Daily] does in each day. Weeks begin on Monday, or
// as [Limit.FromWeekday] says.
func Weekly(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Weeks(zone)}
}

// Monthly allows limit tokens in each month, as [Daily] does in each day. Months begin on the
// first, or as [Limit.From] says.
func Monthly(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Months(zone)}
}

// Yearly allows limit tokens in each year, as [Daily] does in each day. Years begin on 1 January.
func Yearly(limit int, zone *time.Location) Limit {
	return Limit{Capacity: limit, calendar: calendar.Years(zone)}
}

// Until returns a quota of one period: it allows limit tokens, at least 0, until an instant from
// 1970 to 2262. After that instant every call is limited with a RetryAfter of [NoRetry], and Charge
// accounts for nothing. Other rows of such a call with the same hash tag are not decided, not even
// by [Limiter.PeekAll]: their Results tell no state. Before that instant, RetryAfter is the time
// until it, although only tokens that are given back would help.
func Until(limit int, end time.Time) Limit {
	return Limit{Capacity: limit, calendar: calendar.Once(end)}
}

// From returns the limit of [Monthly] with months that begin on another day, from 1 to 31, or on
// the last day of a shorter month. Months from the 31st begin on 31 January, 28 February and 31
// March. Other limits become invalid.
func (l Limit) From(day int) Limit {
	l.calendar = l.calendar.From(day)
	return l
}

// FromWeekday returns the limit of [Weekly] with weeks that begin on another day. Other limits
// become invalid.
func (l Limit) FromWeekday(day time.Weekday) Limit {
	l.calendar = l.calendar.FromWeekday(day)
	return l
}

// PeriodAt returns the period of a quota that runs at an instant. It lasts from begin until end,
// when the next period begins. For [Until], begin is the zero Time. For [Window], the period begins
// at the instant, as if the first call came then. For a rate, and for a limit that is not valid,
// both are the zero Time.
func (l Limit) PeriodAt(at time.Time) (begin, end time.Time) {
	if !l.isQuota() || l.Validate() != nil {
		return time.Time{}, time.Time{}
	}
	return l.calendar.Period(at)
}

func (l Limit) isQuota() bool { return !l.calendar.IsZero() }

// forPeriodOf makes a call on one quota apply to the period in which a Result was counted.
func (inv *invocation) forPeriodOf(result *Result) {
	inv.Rows[0].Quota.Calendar = calendar.Once(time.Unix(0, result.Receipt))
}
