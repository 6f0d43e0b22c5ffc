package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Limit is the limit of a key: Capacity calls at once, and then Count more per Period
// of so many seconds. All are at least 1.
type Limit struct{ Capacity, Count, Period int64 }

// Drain is the time in which a full funnel of this limit drains, in seconds, rounded up.
// Windows do not leak, so they get this length: Capacity calls per Drain are the same
// rate.
func (l Limit) Drain() int64 { return (l.Capacity*l.Period + l.Count - 1) / l.Count }

// The two limits of all load leak slowly: no key expires between two calls.
var (
	Roomy  = Limit{Capacity: 700_000, Count: 1, Period: 6} // never reached while we measure
	Narrow = Limit{Capacity: 1, Count: 1, Period: 600_000} // reached by the first call
)

// A Call holds the differences between calls: the key, of 16 bytes, the client's clock in
// milliseconds, and a number that occurs once per client.
type Call struct {
	Key         string
	Now, Unique int64
}

// holder is a name that no other call has, of 26 bytes.
func (c Call) holder() string { return fmt.Sprintf("%013d-%012d", c.Now, c.Unique) }

// An Operation is one call of one alternative, as it goes over the wire.
type Operation struct {
	// Commands are the commands of the call, sent at once, each a list of words.
	Commands func(Call) [][]string

	// Limited reads the replies, one number per command: the integer that the reply
	// is, or that an array begins with; 0 for any other reply. Nil: nothing is limited.
	Limited func(replies []int64) bool
}

func (o Operation) limited(commands []redis.Cmder) bool {
	numbers := make([]int64, len(commands))
	for i, command := range commands {
		reply := command.(*redis.Cmd).Val()
		if list, ok := reply.([]any); ok && len(list) > 0 {
			reply = list[0]
		}
		numbers[i], _ = reply.(int64)
	}
	return o.Limited != nil && o.Limited(numbers)
}

// A Case is a call that is measured: an alternative and one outcome.
// Case is "allowed", "limited", "peek", or empty for plain commands.
type Case struct {
	Alternative
	Case      string
	operation Operation
}

// ID names the case in files: "throttle/allowed".
func (c Case) ID() string { return strings.TrimSuffix(c.Name+"/"+c.Case, "/") }

func Cases(alternatives []Alternative) (cases []Case) {
	for _, a := range alternatives {
		allowed := a.Operation(Roomy, 1)
		if allowed.Limited == nil {
			cases = append(cases, Case{a, "", allowed})
			continue
		}
		cases = append(cases, Case{a, "allowed", allowed}, Case{a, "limited", a.Operation(Narrow, 1)})
		if a.Peeks {
			cases = append(cases, Case{a, "peek", a.Operation(Roomy, 0)})
		}
	}
	return cases
}

func withoutCase(name string, cases []Case) []Case {
	return slices.DeleteFunc(cases, func(c Case) bool { return c.Case == name })
}
