package limiter

import "time"

// Kind returns how a key keeps the limit: "rate" for a funnel, "quota" for a quota of a calendar or
// of [Until], "window" for a quota of [Window].
//
// A key holds one kind: a rate on the key of a quota is an error, and a window on the key of a
// month is counted in the month. So a program whose limits may change puts the kind into the key,
// as the packages httplimit and grpclimit do.
func (l Limit) Kind() string {
	switch {
	case !l.isQuota():
		return "rate"
	case l.calendar.Lasts() > 0:
		return "window"
	}
	return "quota"
}

// Within returns the time to which the number of [Limit.Max] refers: the second argument of
// [AtMost] and of [Window]. For other limits it is 0.
func (l Limit) Within() time.Duration {
	if l.bound.isSet {
		return l.bound.within
	}
	return l.calendar.Lasts()
}
