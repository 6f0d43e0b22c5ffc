package limiter

import (
	"time"

	"funnel/limiter/internal/calendar"
)

// Window returns a quota whose periods begin with a call: it allows limit tokens, at least 0, from
// the first call until d later. Nothing leaks meanwhile; the first call after that begins the next
// period. "5 tries in 15 minutes" is Window(5, 15*time.Minute).
//
// The server's clock tells when a period begins and ends, whatever the clocks of callers say. A
// period lasts from a millisecond to 100 years, and ends at a whole millisecond. If callers of one
// key differ in d, the caller that begins a period says how long it lasts.
//
// Around the end of a period, up to twice as many tokens may be used in a short time: 5 just before
// it, and 5 just after. For never more than 5 in any 15 minutes, use [AtMost].
//
// [Limiter.Settle] corrects a call in its own period, and changes nothing once that is over.
func Window(limit int, d time.Duration) Limit {
	return Limit{Capacity: limit, calendar: calendar.Windows(d)}
}
