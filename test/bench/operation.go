package bench

import (
	"fmt"
	"strings"
)

// A Limit is the limit of a key: Capacity calls at once, and then Count more per Period of so many
// seconds. All are at least 1.
type Limit struct{ Capacity, Count, Period int64 }

// The two limits of all load leak so slowly that no key expires between two calls.
var (
	Roomy  = Limit{Capacity: 700_000, Count: 1, Period: 6} // no measurement reaches it
	Narrow = Limit{Capacity: 1, Count: 1, Period: 600_000} // the first call reaches it
)

// A Target holds the differences between calls: the key, of 16 bytes, and a number that occurs once
// per client.
type Target struct {
	Key    string
	Unique int64
}

// holder is a name that no other call has, of 26 bytes.
func (t Target) holder() string { return fmt.Sprintf("holder-%019d", t.Unique) }

// An Operation is one command of one alternative.
type Operation struct {
	// Words are the words of a call.
	Words func(Target) []string

	// Limited reports whether a reply is one to a limited call. Its argument is the reply if that
	// is an integer, the first integer of an array, or else 0. If Limited is nil, no call is
	// limited.
	Limited func(reply int64) bool
}

func (o Operation) limited(reply any) bool {
	list, ok := reply.([]any)
	if ok && len(list) > 0 {
		reply = list[0]
	}
	number, _ := reply.(int64)
	return o.Limited != nil && o.Limited(number)
}

// A Case is a call that is measured: an alternative with one outcome. Case is "allowed", "limited",
// or empty for a command that limits nothing.
type Case struct {
	Alternative
	Case      string
	operation Operation
}

// ID names the case in files: "throttle/allowed".
func (c Case) ID() string { return strings.TrimSuffix(c.Name+"/"+c.Case, "/") }

func Cases(alternatives []Alternative) (cases []Case) {
	for _, a := range alternatives {
		allowed := a.Operation(Roomy)
		if allowed.Limited == nil {
			cases = append(cases, Case{a, "", allowed})
			continue
		}
		cases = append(cases, Case{a, "allowed", allowed}, Case{a, "limited", a.Operation(Narrow)})
	}
	return cases
}
