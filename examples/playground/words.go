package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"funnel/limiter"
)

// A request is a call in the words of the commands of the module. They are text, as they
// were typed, for errors that repeat them.
type request struct {
	Command string   `json:"command"`
	Funnels []funnel `json:"funnels"`
	MaxWait string   `json:"max_wait"` // empty is 0
}

type funnel struct {
	Key      string `json:"key"` // without the prefix
	Capacity string `json:"capacity"`
	Count    string `json:"count"`
	Period   string `json:"period"`
	Quantity string `json:"quantity"`
}

// A badWord is an argument that Redis need not be asked about.
type badWord struct {
	name, accepted, value string
	with                  error // when it is wrong together with others only
	funnel                int   // counted from 0
}

func (e *badWord) Error() string {
	if e.with != nil {
		return e.with.Error()
	}
	return fmt.Sprintf("%s must be %s, not '%.40s'", e.name, e.accepted, e.value)
}

// mostFunnels is how many the commands of the page take.
var mostFunnels = map[string]int{"reserve": 3, "peek": 3, "reset": 3, "charge": 1, "refund": 1}

const acceptedSeconds = "9223372036.854775807 and with up to 9 fraction digits"

var (
	keys     = regexp.MustCompile(`^[a-z]{1,20}$`)
	integers = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	decimals = regexp.MustCompile(`^[0-9]{1,10}(\.[0-9]{1,9})?$`)
)

// parse reads what the commands would read, and no other keys than those of the page.
func parse(asked request) (requests []limiter.Request, maxWait time.Duration, err error) {
	most, known := mostFunnels[asked.Command]
	if !known {
		return nil, 0, &badWord{name: "command", accepted: "reserve, peek, charge, refund or reset", value: asked.Command}
	}
	if number := len(asked.Funnels); number < 1 || number > most {
		accepted := "1"
		if most > 1 {
			accepted = fmt.Sprintf("1 to %d", most)
		}
		return nil, 0, &badWord{name: "number of funnels", accepted: accepted, value: strconv.Itoa(number)}
	}
	for i, words := range asked.Funnels {
		r, err := words.parse()
		if err == nil && asked.Command == "reserve" && len(asked.Funnels) > 1 && r.Quantity == 0 {
			err = &badWord{name: "quantity", accepted: "at least 1 for several funnels", value: words.Quantity}
		}
		if err != nil {
			err.funnel = i
			return nil, 0, err
		}
		requests = append(requests, r)
	}
	if asked.MaxWait != "" {
		wait, ok := parseSeconds(asked.MaxWait)
		switch {
		case !ok:
			return nil, 0, &badWord{name: "max_wait", accepted: "seconds from 0 to " + acceptedSeconds, value: asked.MaxWait}
		case len(requests) > 1 && wait > 0:
			return nil, 0, &badWord{name: "max_wait", accepted: "0 for several funnels", value: asked.MaxWait}
		}
		maxWait = wait
	}
	return requests, maxWait, nil
}

func (f funnel) parse() (r limiter.Request, bad *badWord) {
	if !keys.MatchString(f.Key) {
		return r, &badWord{name: "key", accepted: "1 to 20 letters from a to z", value: f.Key}
	}
	r.Key = f.Key
	for _, number := range []struct {
		name, text string
		least      int
		to         *int
	}{
		{"capacity", f.Capacity, 1, &r.Limit.Capacity},
		{"count", f.Count, 1, &r.Limit.Count},
		{"quantity", f.Quantity, 0, &r.Quantity},
	} {
		value, err := strconv.Atoi(number.text)
		if err != nil || value < number.least || !integers.MatchString(number.text) {
			accepted := fmt.Sprintf("an integer from %d to %d", number.least, math.MaxInt)
			return r, &badWord{name: number.name, accepted: accepted, value: number.text}
		}
		*number.to = value
	}
	period, ok := parseSeconds(f.Period)
	if !ok || period == 0 {
		return r, &badWord{name: "period", accepted: "seconds above 0, at most " + acceptedSeconds, value: f.Period}
	}
	r.Limit.Period = period
	rate, err := r.Limit.Rate()
	if err == nil {
		_, err = rate.Increment(int64(r.Quantity))
	}
	if err != nil {
		name, _, _ := strings.Cut(err.Error(), " ") // the word that it begins with
		return r, &badWord{name: name, with: err}
	}
	return r, nil
}

func parseSeconds(text string) (time.Duration, bool) {
	duration, err := time.ParseDuration(text + "s")
	return duration, err == nil && decimals.MatchString(text)
}
