package caddylimit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"funnel/limiter"
)

// A Rate is a funnel: Count requests per Period, and Capacity of the policy at once.
type Rate struct {
	Count  int            `json:"count"`
	Period caddy.Duration `json:"period"`
}

// Within is a number of requests within a time.
type Within struct {
	Max    int            `json:"max"`
	Within caddy.Duration `json:"within"`
}

// A Quota is a number of requests in each period of the calendar.
type Quota struct {
	Max    int    `json:"max"`
	Period string `json:"period"`         // day, week, month or year
	Zone   string `json:"zone,omitempty"` // such as Europe/Berlin; UTC by default
}

// Slots are a number of requests in flight.
type Slots struct {
	Max int `json:"max"`

	// TTL is how long a slot stays taken if its Caddy has crashed: 30 seconds by default.
	TTL caddy.Duration `json:"ttl,omitempty"`
}

const defaultTTL = 30 * time.Second

// limitWords are the words for a limit, one of which a policy needs.
const limitWords = "rate, at_most, window, quota or slots"

// limited returns what the policy limits, or an error that says what is not valid.
func (p *Policy) limited() (l limited, err error) {
	number := 0
	for _, isSet := range []bool{p.Rate != nil, p.AtMost != nil, p.Window != nil, p.Quota != nil, p.Slots != nil} {
		if isSet {
			number++
		}
	}
	switch {
	case number == 0:
		return l, errors.New("there is no limit: it needs one of " + limitWords)
	case number > 1:
		return l, errors.New("there are two limits: a policy has one of " + limitWords + "; write a second policy, " +
			"and a request takes from both or from none")
	case p.Capacity < 0:
		return l, fmt.Errorf("capacity is %d: it must be at least 1", p.Capacity)
	case p.Capacity > 0 && p.Rate == nil && p.AtMost == nil:
		return l, errors.New("capacity is only for rate and at_most")
	case p.Slots != nil && p.Cost != "":
		return l, errors.New("cost is not for slots: each request holds one")
	case p.Slots != nil:
		return p.Slots.limited()
	}
	name := ""
	switch {
	case p.Rate != nil:
		name, l.limit = "rate", limiter.Per(p.Rate.Count, time.Duration(p.Rate.Period))
		if p.Capacity > 0 {
			l.limit = l.limit.WithCapacity(p.Capacity)
		}
	case p.AtMost != nil:
		capacity := p.Capacity
		if capacity == 0 {
			capacity = (p.AtMost.Max + 1) / 2
		}
		name, l.limit = "at_most", limiter.AtMost(p.AtMost.Max, time.Duration(p.AtMost.Within), capacity)
	case p.Window != nil:
		name, l.limit = "window", limiter.Window(p.Window.Max, time.Duration(p.Window.Within))
	case p.Quota != nil:
		name = "quota"
		l.limit, err = p.Quota.limit()
	}
	if err == nil {
		err = l.limit.Validate()
	}
	if err != nil {
		return l, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (s *Slots) limited() (l limited, err error) {
	ttl := time.Duration(s.TTL)
	if ttl == 0 {
		ttl = defaultTTL
	}
	switch {
	case s.Max < 1:
		return l, fmt.Errorf("slots: the number is %d: it must be at least 1", s.Max)
	case ttl < time.Second: // the slots of a Caddy that is busy would be lost
		return l, fmt.Errorf("slots: the ttl is %v: it must be at least 1s", ttl)
	}
	l.slots = limiter.Slots{Max: s.Max, TTL: ttl}
	return l, nil
}

// quotaOf are the quotas by the name of their period.
var quotaOf = map[string]func(int, *time.Location) limiter.Limit{
	"day": limiter.Daily, "week": limiter.Weekly, "month": limiter.Monthly, "year": limiter.Yearly,
}

func (q *Quota) limit() (limiter.Limit, error) {
	limit, known := quotaOf[q.Period]
	if !known {
		return limiter.Limit{}, fmt.Errorf("the period is '%s': it must be day, week, month or year", q.Period)
	}
	zone, err := time.LoadLocation(q.Zone)
	if err != nil || strings.EqualFold(q.Zone, "local") {
		return limiter.Limit{}, fmt.Errorf("the zone is '%s': it must be UTC, or the name of a time zone such as "+
			"Europe/Berlin, the same for all Caddys", q.Zone)
	}
	return limit(q.Max, zone), nil
}
