package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"funnel/limiter"
)

// A call is what the page asks for: one command for each funnel, or one for all of them.
type call struct {
	Command string
	Funnels []funnel
	MaxWait float64 `json:"max_wait"` // seconds
}

type funnel struct {
	Key             string // without the prefix
	Capacity, Count int
	Period          float64 // seconds
	Quantity        int
	Receipt         int64 `json:",string"` // for refund: of the call that took the quantity
	Job             int   // above 0, it holds one of Capacity slots, for Period
}

var keys = regexp.MustCompile(`^[a-z]{1,20}$`)

// check allows what the page does, and no other keys than those with the prefix. Package
// limiter checks the limits.
func (c call) check() error {
	if !slices.Contains([]string{"reserve", "peek", "charge", "refund", "reset"}, c.Command) {
		return fmt.Errorf("command must be reserve, peek, charge, refund or reset, not '%.40s'", c.Command)
	}
	if len(c.Funnels) < 1 || len(c.Funnels) > 2 {
		return fmt.Errorf("there must be 1 or 2 funnels, not %d", len(c.Funnels))
	}
	for _, f := range c.Funnels {
		if !keys.MatchString(f.Key) {
			return fmt.Errorf("key must be 1 to 20 letters from a to z, not '%.40s'", f.Key)
		}
		if f.Quantity < 1 {
			return fmt.Errorf("quantity must be at least 1, not %d", f.Quantity)
		}
	}
	return nil
}

func (f funnel) request() limiter.Request {
	limit := limiter.Per(f.Count, duration(f.Period)).WithCapacity(f.Capacity)
	return limiter.Request{Key: f.Key, Limit: limit, Quantity: f.Quantity}
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// ask makes the call through package limiter, and returns the result of each funnel.
func (c call) ask(ctx context.Context, l *limiter.Limiter) (results limiter.Results, err error) {
	if c.Command == "reserve" && len(c.Funnels) > 1 {
		return l.AllowAll(ctx, c.Funnels[0].request(), c.Funnels[1].request())
	}
	for _, f := range c.Funnels {
		r, result := f.request(), limiter.Result{}
		switch c.Command {
		case "reserve":
			result, err = l.Reserve(ctx, r.Key, r.Limit, r.Quantity, duration(c.MaxWait))
		case "charge":
			result, err = l.Charge(ctx, r.Key, r.Limit, r.Quantity)
		case "refund": // the page has kept what Settle needs of a Result
			taken := limiter.Result{Key: r.Key, Limit: r.Limit, Allowed: r.Quantity, Receipt: f.Receipt}
			result, err = l.Settle(ctx, &taken, 0)
		case "reset":
			if err = l.Reset(ctx, r.Key); err != nil {
				return nil, err
			}
			if f.Job > 0 { // there is no slot left to peek at
				result = limiter.Result{OK: true, Source: limiter.FromModule}
				break
			}
			fallthrough
		case "peek":
			result, err = l.Peek(ctx, r.Key, r.Limit)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// askModule makes a call for slots by a command: a Slot of package limiter renews itself, and these
// end unless the visitor renews them.
func (c call) askModule(ctx context.Context, s store) (rows []row, err error) {
	words := []any{"cl." + c.Command}
	for _, f := range c.Funnels {
		words = append(words, s.prefix+f.Key, f.Capacity)
		if f.Job > 0 {
			words = append(words, "SLOTS", f.Period, fmt.Sprint("job-", f.Job))
		} else {
			words = append(words, f.Count, f.Period, f.Quantity)
		}
	}
	reply, err := s.rdb.Do(ctx, words...).Slice()
	if err != nil {
		return nil, err
	}
	for _, words := range reply[2].([]any) {
		words := words.([]any)
		wait, _ := strconv.ParseFloat(words[3].(string), 64)
		resetAfter, _ := strconv.ParseFloat(words[4].(string), 64)
		rows = append(rows, row{Limited: words[0] == int64(1), Wait: wait, ResetAfter: resetAfter})
	}
	return rows, nil
}
