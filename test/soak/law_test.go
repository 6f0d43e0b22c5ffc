package soak_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// A group is of keys that are called together. Each call of it has a number, in the server's order.
type group struct {
	name      string
	isCharged bool // slots may run beyond the limit
	receipts  sync.Map

	mutex    sync.Mutex
	answered map[int64]*call // not yet checked: an earlier one is under way
	number   int64           // of the latest that is checked
	earliest int64           // when that was, in nanoseconds
	values   map[string]contract.Value
	levels   map[string]int64 // of the funnels, in nanoseconds, at that instant
}

// A call is one of a transaction, with what the keys held around it.
type call struct {
	words         []string
	byScript      bool
	rows          [][]string
	before, after map[string]contract.Value
	expiries      map[string]int64 // in milliseconds, after it
	reply         any
	number        int64 // in the group, from 1
	sent, answer  int64 // instants between which it was executed, by the client's clock
}

// check checks the calls that are next, and returns how many of them tell their instant to the nanosecond.
func (g *group) check(answered *call) (exact int, err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if answered.number <= g.number || g.answered[answered.number] != nil {
		return 0, fmt.Errorf("the number %d was given twice: a call is lost: %+v", answered.number, *answered)
	}
	g.answered[answered.number] = answered
	for c := g.answered[g.number+1]; c != nil; c = g.answered[g.number+1] {
		delete(g.answered, c.number)
		for key, before := range c.before {
			if !isSame(g.values[key], before, c.answer) {
				return exact, fmt.Errorf("%s held %+v after the call before: %+v", key, g.values[key], *c)
			}
		}
		instant, isExact, explained := c.explain()
		if !explained {
			return exact, fmt.Errorf("no instant from %d to %d explains the reply: %+v", c.sent, c.answer, *c)
		}
		latest := c.answer
		if isExact {
			exact, latest = exact+1, instant
		}
		if err := g.follow(c, latest); err != nil {
			return exact, err
		}
		maps.Copy(g.values, c.after)
		g.number, g.earliest = c.number, instant
	}
	return exact, nil
}

// follow keeps the law itself, apart from the arithmetic of the contract: a funnel lets through what
// it holds and what leaks, and no more slots run than the limit.
func (g *group) follow(c *call, latest int64) error {
	command, _ := contract.CommandOf(c.words[0])
	for key, level := range g.levels {
		g.levels[key] = max(0, level-max(0, latest-g.earliest))
	}
	for _, row := range c.rows {
		if after := c.after[row[0]]; after.Type == "zset" && !g.isCharged {
			running := 0
			for _, end := range after.Scores {
				running += map[bool]int{true: 1}[int64(end)*1e6 > latest]
			}
			if running > slotsLimit {
				return fmt.Errorf("%d slots run: %+v", running, *c)
			}
		}
		reply, isReply := c.reply.([]any)
		if !isReply || row[2] == "SLOTS" || command.Operation == "peek" {
			continue
		}
		tokens, wait := number(row[4]), int64(0)
		if !command.Seconds {
			wait = nanoseconds(reply[1])
		}
		switch {
		case command.Operation == "take":
			tokens, wait = reply[3].(int64), 0
		case command.Operation == "refund":
			tokens = -tokens
		case command.Operation == "reserve" && reply[0] != int64(0):
			tokens = 0
		}
		interval, tolerance := rateOf(row)
		g.levels[row[0]] = max(0, g.levels[row[0]]+tokens*interval)
		if tokens > 0 && command.Operation != "charge" && g.levels[row[0]]-wait > tolerance {
			return fmt.Errorf("%s has let through %d ns too many: %+v", row[0], g.levels[row[0]]-wait-tolerance, *c)
		}
	}
	return nil
}

// explain finds an instant at which the contract replies and stores the same. It is the earliest one,
// unless the reply tells it exactly. All conditions hold from some instant on or until one, so the
// earliest is either the first possible one or the first of a condition.
func (c *call) explain() (instant int64, isExact, explained bool) {
	exact, others := c.instants()
	for i, instant := range append(exact, others...) {
		unit := int64(1)
		if c.byScript {
			unit = 1000
		}
		if instant = (instant + unit - 1) / unit * unit; instant < c.sent/unit*unit || instant > c.answer {
			continue
		}
		outcome := contract.Call(contract.Default, c.words, instant, func(key string) contract.Value { return c.before[key] })
		if c.is(outcome) {
			return instant, i < len(exact), true
		}
	}
	return 0, false, false
}

// is reports whether the outcome is what became of the call.
func (c *call) is(outcome contract.Outcome) bool {
	if text, isError := c.reply.(servertest.ErrorReply); isError != (outcome.Err != "") ||
		isError && !strings.HasPrefix(string(text), string(outcome.Err)) ||
		!isError && !reflect.DeepEqual(outcome.Reply, c.reply) {
		return false
	}
	expected := maps.Clone(c.before)
	for _, write := range outcome.Writes {
		value := contract.Value{Type: "string", Text: write.Value}
		if write.Holder != "" {
			value = contract.Value{Type: "zset", Scores: write.Left}
		}
		if write.Value == "" && len(write.Left) == 0 {
			value = contract.Value{}
		}
		expected[write.Key] = value
	}
	for key, value := range expected {
		if got := c.after[key]; !isSame(value, got, c.answer) || got.Type != "" && c.expiries[key] != expiryOf(got) {
			return false
		}
	}
	return true
}

// instants are those that the reply tells exactly, and those from which on a condition holds.
func (c *call) instants() (exact, others []int64) {
	others = []int64{c.sent}
	command, _ := contract.CommandOf(c.words[0])
	reply, isReply := c.reply.([]any)
	for i, row := range c.rows {
		before, after := lastOf(c.before[row[0]]), lastOf(c.after[row[0]])
		others = append(others, before)
		switch {
		case !isReply:
		case command.Seconds:
			interval, tolerance := rateOf(row)
			increment, full := interval*number(row[4]), before+interval*number(row[4])-tolerance
			others = append(others, after-reply[4].(int64)*1e9, after-tolerance+reply[2].(int64)*interval, full, full-reply[3].(int64)*1e9)
			if after > before+increment || before == 0 {
				exact = append(exact, after-increment)
			}
		default:
			fields := reply[2].([]any)[i].([]any)
			if reset := nanoseconds(fields[4]); reset > 0 {
				exact = append(exact, after-reset)
			}
			if row[2] == "SLOTS" {
				for holder, end := range c.before[row[0]].Scores {
					others = append(others, int64(end)*1e6)
					if held := nanoseconds(fields[5]); holder == row[4] && held > 0 {
						exact = append(exact, int64(end)*1e6-held)
					}
				}
			} else if command.Operation == "refund" {
				interval, _ := rateOf(row)
				others = append(others, before-interval*number(row[4]))
			}
		}
	}
	return exact, others
}

// isSame reports whether a key that held one value holds the other, or has expired by then.
func isSame(held, got contract.Value, now int64) bool {
	if got.Type == "" {
		return held.Type == "" || expiryOf(held) <= now/1e6
	}
	return held.Type == got.Type && held.Text == got.Text && maps.Equal(held.Scores, got.Scores)
}

// lastOf is the TAT, or when the last slot ends.
func lastOf(value contract.Value) (instant int64) {
	if value.Type == "zset" {
		return int64(slices.Max(slices.Collect(maps.Values(value.Scores)))) * 1e6
	} else if value.Type == "string" {
		return number(value.Text)
	}
	return 0
}

func expiryOf(value contract.Value) int64 { return (lastOf(value) + 1e6 - 1) / 1e6 }

func rateOf(row []string) (interval, tolerance int64) {
	interval = nanoseconds(row[3]) / number(row[2])
	return interval, interval * number(row[1])
}

func nanoseconds(word any) int64 {
	if word == "-1" {
		return math.MaxInt64
	}
	seconds, ok := contract.Seconds(word.(string))
	if !ok {
		panic(fmt.Sprint("no seconds: ", word))
	}
	return seconds.Int64()
}

func number(word string) int64 {
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}
