// Package calendar tells when the period of a quota ends. A period is a day, a week, a month or a
// year of a time zone, the only period of a quota, which ends at an instant, or a window, which
// begins with the first call. The server knows no calendar: a client sends it the end of the period
// that runs, or the length of a window.
//
// A date begins at its first instant in the zone. That is after the gap if clocks skip midnight,
// and the first of two midnights if clocks are set back over it. A date that a zone skips has no
// period of its own.
package calendar

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unique"
)

// A Calendar has one period after another. The zero Calendar has none. Calendars are equal if they
// have the same periods and the same zone. A zone that is loaded twice is one zone: see canonical.
//
// A Calendar is a pointer to its rules, so that limits stay small.
type Calendar struct{ rules unique.Handle[rules] }

// rules tell when the periods of a calendar begin and end.
type rules struct {
	unit    unit
	zone    *time.Location
	day     int          // months begin on this day
	weekday time.Weekday // weeks begin on this day
	end     time.Time    // of the only period, in UTC

	lasts time.Duration // the length of a window
}

type unit uint8

const (
	none unit = iota
	day
	week
	month
	year
	once
	window
	notMonth // not valid: From was called on a calendar without months
	notWeek  // not valid: FromWeekday was called on a calendar without weeks
)

// Days returns the calendar of days in a zone.
func Days(zone *time.Location) Calendar { return of(rules{unit: day, zone: canonical(zone)}) }

// Weeks returns the calendar of weeks in a zone. Weeks begin on Monday.
func Weeks(zone *time.Location) Calendar {
	return of(rules{unit: week, zone: canonical(zone), weekday: time.Monday})
}

// Months returns the calendar of months in a zone. Months begin on the first.
func Months(zone *time.Location) Calendar {
	return of(rules{unit: month, zone: canonical(zone), day: 1})
}

// Years returns the calendar of years in a zone. Years begin on 1 January.
func Years(zone *time.Location) Calendar { return of(rules{unit: year, zone: canonical(zone)}) }

// Once returns the calendar of a single period, which has no begin.
func Once(end time.Time) Calendar { return of(rules{unit: once, end: end.Round(0).UTC()}) }

// Windows returns the calendar of periods that begin with a call, and last from a millisecond to
// 100 years.
func Windows(lasts time.Duration) Calendar { return of(rules{unit: window, lasts: lasts}) }

// A window lasts at least a millisecond, because keys expire in milliseconds. It lasts 100 years at
// most, so that it ends before the year 2262, where times in nanoseconds end.
const (
	minLasts = time.Millisecond
	maxLasts = 100 * 365 * aDay
)

func of(r rules) Calendar { return Calendar{unique.Make(r)} }

// get returns the rules of the calendar.
func (c Calendar) get() rules {
	if c.IsZero() {
		return rules{}
	}
	return c.rules.Value()
}

// From returns the calendar with months that begin on a day from 1 to 31, or on the last day of a
// shorter month.
func (c Calendar) From(day int) Calendar {
	r := c.get()
	r.day = day
	if r.unit != month {
		r.unit = notMonth
	}
	return of(r)
}

// FromWeekday returns the calendar with weeks that begin on a weekday.
func (c Calendar) FromWeekday(day time.Weekday) Calendar {
	r := c.get()
	r.weekday = day
	if r.unit != week {
		r.unit = notWeek
	}
	return of(r)
}

// IsZero reports whether c is the zero Calendar.
func (c Calendar) IsZero() bool { return c == Calendar{} }

// The commands accept ends after firstEnd, up to lastEnd.
var firstEnd, lastEnd = time.Unix(0, 0).UTC(), time.Unix(0, math.MaxInt64).UTC()

// Check returns an error that says why the calendar is not valid, or nil. Period is for valid
// calendars.
func (c Calendar) Check() error {
	switch r := c.get(); {
	case r.unit == notMonth:
		return fmt.Errorf("From(%d) is for Monthly: use FromWeekday for Weekly, and neither for other limits", r.day)
	case r.unit == notWeek:
		return fmt.Errorf("FromWeekday(%v) is for Weekly: use From for Monthly, and neither for other limits", r.weekday)
	case r.unit == window && (r.lasts < minLasts || r.lasts > maxLasts):
		return fmt.Errorf("a window must last from %v to %v, not %v", minLasts, maxLasts, r.lasts)
	case r.unit != once && r.unit != window && r.zone == nil:
		return errors.New("the zone must not be nil: use time.UTC, time.Local or time.LoadLocation")
	case r.unit == month && (r.day < 1 || r.day > 31):
		return fmt.Errorf("a month must begin on a day from 1 to 31, not %d", r.day)
	case r.unit == week && (r.weekday < time.Sunday || r.weekday > time.Saturday):
		return fmt.Errorf("a week must begin on a day from time.Sunday to time.Saturday, not %v", r.weekday)
	case r.unit == once && (!r.end.After(firstEnd) || r.end.After(lastEnd)):
		return fmt.Errorf("the end must be after %v, and no later than %v, not %v", firstEnd, lastEnd, r.end)
	}
	return nil
}

// Lasts returns how long a window lasts. For other calendars it returns 0.
func (c Calendar) Lasts() time.Duration { return c.get().lasts }

// Period returns the period that runs at an instant. Begin is in the period, and end is in the next
// one. The period of Once begins at the zero Time, and has ended if end is not after the instant. A
// window begins at the instant, as if the first call came then.
func (c Calendar) Period(at time.Time) (begin, end time.Time) {
	r := c.get()
	switch r.unit {
	case once:
		return time.Time{}, r.end
	case window:
		return at, at.Add(r.lasts)
	}
	date := r.firstDate(at.In(r.zone))
	begin = r.beginOf(date)
	for {
		date = r.nextDate(date)
		end = r.beginOf(date)
		if end.After(at) { // not if clocks were set back from the next date into this one
			return begin, end
		}
		begin = end
	}
}

// firstDate returns the date on which the period with the date of an instant begins. Dates are
// midnights in UTC.
func (r *rules) firstDate(at time.Time) time.Time {
	date := dateOf(at.Date())
	switch r.unit {
	case week:
		return date.AddDate(0, 0, -int((7+date.Weekday()-r.weekday)%7))
	case month:
		first := r.inMonth(at.Year(), at.Month())
		if first.After(date) {
			return r.inMonth(at.Year(), at.Month()-1)
		}
		return first
	case year:
		return dateOf(at.Year(), time.January, 1)
	}
	return date
}

// nextDate returns the date on which the next period begins.
func (r *rules) nextDate(first time.Time) time.Time {
	switch r.unit {
	case week:
		return first.AddDate(0, 0, 7)
	case month:
		return r.inMonth(first.Year(), first.Month()+1)
	case year:
		return dateOf(first.Year()+1, time.January, 1)
	}
	return first.AddDate(0, 0, 1)
}

// inMonth returns the date on which a period begins in a month.
func (r *rules) inMonth(year int, month time.Month) time.Time {
	last := dateOf(year, month+1, 0)
	return dateOf(last.Year(), last.Month(), min(r.day, last.Day()))
}

func dateOf(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

const aDay = 24 * time.Hour

// beginOf returns the first instant of a date, or of the next date if the zone skips that date. It
// looks at one offset of the zone after another, beginning 8 days before the date: no offset is
// larger than a week.
func (r *rules) beginOf(date time.Time) time.Time {
	from := date.Add(-8 * aDay).In(r.zone)
	for {
		_, seconds := from.Zone()
		_, until := from.ZoneBounds()
		if !until.IsZero() && !until.After(from) {
			until = from.Truncate(aDay).Add(aDay) // on the last day of a leap year, ZoneBounds is a day too early
		}
		begin := date.Add(-time.Duration(seconds) * time.Second)
		if begin.Before(from) {
			begin = from // clocks skip midnight
		}
		if until.IsZero() || begin.Before(until) {
			return begin.In(r.zone)
		}
		from = until.In(r.zone)
	}
}

// String describes the calendar. The text follows a number: "per day in Europe/Berlin".
func (c Calendar) String() string {
	r, zone := c.get(), "no zone"
	if r.zone != nil {
		zone = r.zone.String()
	}
	switch {
	case r.unit == once:
		return "until " + r.end.Format(time.RFC3339Nano)
	case r.unit == day:
		return "per day in " + zone
	case r.unit == week && r.weekday == time.Monday:
		return "per week in " + zone
	case r.unit == week:
		return fmt.Sprintf("per week from %v in %s", r.weekday, zone)
	case r.unit == month && r.day == 1:
		return "per month in " + zone
	case r.unit == month:
		return fmt.Sprintf("per month from day %d in %s", r.day, zone)
	case r.unit == year:
		return "per year in " + zone
	case r.unit == window:
		return fmt.Sprintf("in %v from the first call", r.lasts)
	}
	return "per period that is not valid"
}
