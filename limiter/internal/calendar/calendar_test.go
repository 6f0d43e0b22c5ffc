package calendar

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may lack zones

	"github.com/stretchr/testify/require"
)

func in(t testing.TB, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

// Periods begin as the clocks of the zone say, even if clocks skip midnight, show it twice, or skip
// a date.
func TestBordersOfPeriods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, at   string // local: with the offset, since midnight may exist twice
		of         func(*time.Location) Calendar
		begin, end string
	}{
		{"UTC", "1970-01-01T00:00:00Z", Days, "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"},
		{"UTC", "1969-12-31T23:59:59Z", Weeks, "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z"},
		{"UTC", "2028-02-29T23:59:59Z", Months, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"UTC", "2026-11-23T00:00:00Z", Weeks, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		// Midnight does not exist: the clocks go from 24:00 to 1:00.
		{"America/Santiago", "2026-09-05T23:59:59-04:00", Days, "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"America/Santiago", "2026-09-06T01:00:00-03:00", Days, "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"America/Havana", "2027-03-14T12:00:00-04:00", Days, "2027-03-14T01:00:00-04:00", "2027-03-15T00:00:00-04:00"},
		{"Asia/Beirut", "2027-03-28T12:00:00+03:00", Days, "2027-03-28T01:00:00+03:00", "2027-03-29T00:00:00+03:00"},
		{"Africa/Cairo", "2027-04-30T12:00:00+03:00", Days, "2027-04-30T01:00:00+03:00", "2027-05-01T00:00:00+03:00"},
		// Midnight exists twice, on one date or on two: the first counts.
		{"America/Havana", "2026-11-01T00:30:00-05:00", Days, "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"America/Santiago", "2026-04-04T23:30:00-04:00", Days, "2026-04-04T00:00:00-03:00", "2026-04-05T00:00:00-04:00"},
		{"America/St_Johns", "2010-11-06T23:30:00-03:30", Days, "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		// There is no 30th.
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", Days, "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31T00:00:00+14:00", Days, "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31T00:00:00+14:00", fromWeekday(time.Friday), "2011-12-31T00:00:00+14:00",
			"2012-01-06T00:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31T00:00:00+14:00", fromDay(30), "2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00"},
		// The last day of a leap year that files of zones leave to a rule, the day before, and
		// years of 53 weeks.
		{"America/New_York", "2040-12-31T23:00:00-05:00", Days, "2040-12-31T00:00:00-05:00", "2041-01-01T00:00:00-05:00"},
		{"America/New_York", "2040-12-30T20:00:00-05:00", Days, "2040-12-30T00:00:00-05:00", "2040-12-31T00:00:00-05:00"},
		{"Europe/Berlin", "2026-12-31T12:00:00+01:00", Weeks, "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"},
		{"Europe/Berlin", "2028-01-02T23:59:59+01:00", Weeks, "2027-12-27T00:00:00+01:00", "2028-01-03T00:00:00+01:00"},
		{"Europe/Berlin", "2026-03-29T12:00:00+02:00", fromWeekday(time.Sunday), "2026-03-29T00:00:00+01:00",
			"2026-04-05T00:00:00+02:00"},
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", fromWeekday(time.Sunday), "2026-03-22T00:00:00+01:00",
			"2026-03-29T00:00:00+01:00"},
		// Months that are shorter than the day on which they begin.
		{"Europe/Berlin", "2027-01-30T12:00:00+01:00", fromDay(31), "2026-12-31T00:00:00+01:00", "2027-01-31T00:00:00+01:00"},
		{"Europe/Berlin", "2027-02-28T00:00:00+01:00", fromDay(31), "2027-02-28T00:00:00+01:00", "2027-03-31T00:00:00+02:00"},
		{"Europe/Berlin", "2027-02-27T12:00:00+01:00", fromDay(30), "2027-01-30T00:00:00+01:00", "2027-02-28T00:00:00+01:00"},
		{"Europe/Berlin", "2027-03-01T00:00:00+01:00", fromDay(29), "2027-02-28T00:00:00+01:00", "2027-03-29T00:00:00+02:00"},
		{"Europe/Berlin", "2028-02-29T00:00:00+01:00", fromDay(29), "2028-02-29T00:00:00+01:00", "2028-03-29T00:00:00+02:00"},
		{"Europe/Berlin", "2027-01-14T23:59:59+01:00", fromDay(15), "2026-12-15T00:00:00+01:00", "2027-01-15T00:00:00+01:00"},
		{"Europe/Berlin", "2028-02-29T12:00:00+01:00", Years, "2028-01-01T00:00:00+01:00", "2029-01-01T00:00:00+01:00"},
		{"Europe/Berlin", "2027-12-31T23:59:59+01:00", Years, "2027-01-01T00:00:00+01:00", "2028-01-01T00:00:00+01:00"},
		{"Pacific/Kiritimati", "1995-01-01T12:00:00+14:00", Years, "1995-01-01T00:00:00+14:00", "1996-01-01T00:00:00+14:00"},
		{"Pacific/Kiritimati", "1994-12-30T12:00:00-10:00", Years, "1994-01-01T00:00:00-10:00", "1995-01-01T00:00:00+14:00"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		require.NoError(t, err)
		calendar := c.of(in(t, c.zone))
		require.NoError(t, calendar.Check())
		begin, end := calendar.Period(at)
		require.Equal(t, []string{c.begin, c.end}, []string{begin.Format(time.RFC3339), end.Format(time.RFC3339)},
			"%v at %s", calendar, c.at)
	}
}

func fromDay(day int) func(*time.Location) Calendar {
	return func(zone *time.Location) Calendar { return Months(zone).From(day) }
}

func fromWeekday(day time.Weekday) func(*time.Location) Calendar {
	return func(zone *time.Location) Calendar { return Weeks(zone).FromWeekday(day) }
}

// In any zone, each instant is in one period, periods follow each other without gaps, and no period
// is empty.
func FuzzPeriods(f *testing.F) {
	names := []string{"UTC", "Pacific/Apia", "America/St_Johns", "America/Santiago", "Asia/Manila", "Africa/Monrovia",
		"America/Juneau", "Antarctica/Troll", "Asia/Gaza", "Europe/Dublin", "Pacific/Kwajalein", "Africa/Casablanca"}
	f.Add(int64(1325239200e9), byte(1), byte(1), 30) // in Apia, about the date that it skips
	f.Add(int64(1289097060e9), byte(2), byte(0), 1)  // in St. John's, midnight again
	f.Add(int64(1861920000e9), byte(3), byte(2), 31)
	f.Add(int64(1861920000e9), byte(1), byte(3), 0)
	f.Fuzz(func(t *testing.T, nanoseconds int64, zone, unit byte, day int) {
		location := in(t, names[int(zone)%len(names)])
		calendar := []Calendar{Days(location), Weeks(location).FromWeekday(time.Weekday(day)),
			Months(location).From(day), Years(location)}[unit%4]
		at := time.Unix(0, nanoseconds)
		if calendar.Check() != nil {
			return
		}
		begin, end := calendar.Period(at)
		require.False(t, begin.After(at), "%v: %v is before its period begins, %v", calendar, at, begin)
		require.True(t, end.After(at), "%v: %v is in a period that has ended, %v", calendar, at, end)
		longest := []time.Duration{3 * aDay, 9 * aDay, 33 * aDay, 368 * aDay}[unit%4]
		require.LessOrEqual(t, end.Sub(begin), longest)
		for _, other := range []time.Time{begin, at.Add(end.Sub(at) / 2), end.Add(-1)} {
			first, last := calendar.Period(other)
			require.Equal(t, []time.Time{begin, end}, []time.Time{first, last}, "%v: %v and %v", calendar, at, other)
		}
		_, last := calendar.Period(begin.Add(-1))
		first, _ := calendar.Period(end)
		require.Equal(t, []time.Time{begin, end}, []time.Time{last, first}, "%v: the neighbours of %v", calendar, at)
	})
}

// A zone that is loaded twice is one zone. Zones with one name and different offsets are different
// zones.
func TestCalendarsAreComparable(t *testing.T) {
	t.Parallel()
	first, second := in(t, "Europe/Berlin"), in(t, "Europe/Berlin")
	require.NotSame(t, first, second)
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, first)
	require.True(t, Months(first).From(15) == Months(second).From(15))
	require.True(t, Once(end) == Once(end.In(time.UTC)))
	require.True(t, Once(time.Now()) != Once(time.Now().Add(1)))
	require.True(t, Windows(time.Hour) == Windows(60*time.Minute))
	require.True(t, Windows(time.Hour) != Windows(time.Minute))
	for _, other := range []Calendar{{}, Days(second), Weeks(second), Months(second), Months(second).From(16),
		Months(time.UTC).From(15), Years(second), Once(end), Windows(time.Hour)} {
		require.True(t, Months(first).From(15) != other, "%v", other)
	}
	made := Days(time.FixedZone("made up", 0))
	require.True(t, made == Days(time.FixedZone("made up", 0)))
	require.True(t, made != Days(time.FixedZone("made up", 1)))
	require.True(t, Days(time.FixedZone("CET", 3600)) != Days(in(t, "CET")), "one has a summer")
	require.True(t, Days(time.FixedZone("Asia/Singapore", 8*3600)) != Days(in(t, "Asia/Singapore")),
		"one had another offset in 1970")
	for i := range 2 * maxZones {
		require.NoError(t, Days(time.FixedZone(fmt.Sprint(i), 0)).Check())
	}
	require.LessOrEqual(t, len(zones.known), maxZones)
}

// The text of a calendar follows a number, as in "1000 per month in Europe/Berlin".
func TestString(t *testing.T) {
	t.Parallel()
	berlin := in(t, "Europe/Berlin")
	for want, calendar := range map[string]Calendar{
		"per day in Europe/Berlin":               Days(berlin),
		"per week in Europe/Berlin":              Weeks(berlin),
		"per week from Sunday in Europe/Berlin":  Weeks(berlin).FromWeekday(time.Sunday),
		"per month in Europe/Berlin":             Months(berlin),
		"per month from day 15 in Europe/Berlin": Months(berlin).From(15),
		"per day in no zone":                     Days(nil),
		"until 2026-11-30T23:00:00.5Z":           Once(time.Date(2026, 12, 1, 0, 0, 0, 5e8, berlin)),
		"per period that is not valid":           Days(berlin).From(2),
	} {
		require.Equal(t, want, calendar.String())
	}
	require.Equal(t, "per period that is not valid", Calendar{}.String())
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const from, fromWeekday = " is for Monthly: use FromWeekday for Weekly, and neither for other limits",
		" is for Weekly: use From for Monthly, and neither for other limits"
	for want, c := range map[string]Calendar{
		"the zone must not be nil: use time.UTC, time.Local or time.LoadLocation": Weeks(nil),
		"a month must begin on a day from 1 to 31, not 32":                        Months(time.UTC).From(32),
		"a month must begin on a day from 1 to 31, not 0":                         Months(time.UTC).From(0),
		"a week must begin on a day from time.Sunday to time.Saturday, not %!Weekday(7)": Weeks(
			time.UTC).FromWeekday(7),
		"From(3)" + from:                    Weeks(time.UTC).From(3),
		"From(2)" + from:                    Days(time.UTC).From(2),
		"From(1)" + from:                    Once(time.Now()).From(1),
		"From(4)" + from:                    Years(time.UTC).From(4),
		"From(5)" + from:                    Windows(time.Hour).From(5),
		"FromWeekday(Sunday)" + fromWeekday: Months(time.UTC).FromWeekday(0),
	} {
		require.EqualError(t, c.Check(), want)
	}
	for lasts, want := range map[time.Duration]string{
		0: "0s", -time.Hour: "-1h0m0s", minLasts - 1: "999.999µs", maxLasts + 1: "876000h0m0.000000001s",
	} {
		require.EqualError(t, Windows(lasts).Check(), "a window must last from 1ms to 876000h0m0s, not "+want)
	}
	require.NoError(t, Windows(minLasts).Check())
	require.NoError(t, Windows(maxLasts).Check())
	for _, end := range []time.Time{{}, firstEnd, lastEnd.Add(1)} {
		require.EqualError(t, Once(end).Check(), "the end must be after 1970-01-01 00:00:00 +0000 UTC, and no later than "+
			"2262-04-11 23:47:16.854775807 +0000 UTC, not "+end.String())
	}
	require.NoError(t, Once(firstEnd.Add(1)).Check())
	require.NoError(t, Once(lastEnd).Check())
	for _, valid := range []Calendar{Months(time.UTC).From(1), Months(time.UTC).From(31), Weeks(time.UTC).FromWeekday(0),
		Weeks(time.UTC).FromWeekday(6), Days(time.UTC)} {
		require.NoError(t, valid.Check(), "%v", valid)
	}
	require.True(t, Calendar{}.IsZero())
	require.False(t, Weeks(nil).IsZero())
}

// A window begins with the call: at any instant, a whole window lies ahead.
func TestWindows(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 12, 0, 0, 123456, time.UTC)
	begin, end := Windows(time.Hour).Period(at)
	require.Equal(t, []time.Time{at, at.Add(time.Hour)}, []time.Time{begin, end})
	require.Equal(t, time.Hour, Windows(time.Hour).Lasts())
	require.Zero(t, Days(time.UTC).Lasts())
	require.Zero(t, Calendar{}.Lasts())
	require.Equal(t, "in 15m0s from the first call", Windows(15*time.Minute).String())
	require.Equal(t, "per year in UTC", Years(time.UTC).String())
}

// A program that runs while tzdata is updated, and loads the zone again, gets days as the new rules
// say: zones of one name whose rules differ in one winter are two zones.
func TestZonesWithOtherRules(t *testing.T) {
	t.Parallel()
	rules := func(extend string) *time.Location {
		// A zone file of version 2 without transitions: its last line has the rules.
		header := "TZif2" + strings.Repeat("\x00", 15)
		counts := "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x04"
		block := "\xff\xff\x8f\x80\x00\x00PST\x00"
		zone, err := time.LoadLocationFromTZData("Test/Vancouver",
			[]byte(header+counts+block+header+counts+block+"\n"+extend+"\n"))
		require.NoError(t, err)
		return zone
	}
	const november, march = "PST8PDT,M3.2.0,M11.1.0", "PST8PDT,M3.2.0,M10.5.0"
	old, again, updated := Days(rules(november)), Days(rules(november)), Days(rules(march))
	require.Equal(t, old, again, "loaded twice, it is one zone")
	require.NotEqual(t, old, updated)
	at := time.Date(2026, time.October, 28, 12, 0, 0, 0, time.UTC)
	begin, _ := old.Period(at)
	require.Equal(t, "2026-10-28T00:00:00-07:00", begin.Format(time.RFC3339))
	begin, _ = updated.Period(at)
	require.Equal(t, "2026-10-28T00:00:00-08:00", begin.Format(time.RFC3339), "as the zone of this calendar says")
}
