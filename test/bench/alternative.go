package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"funnel/limiter"
)

// An Alternative is a way to limit a rate, or a command to compare it with.
type Alternative struct {
	Name        string   // in options and files
	Title       string   // in tables
	Yardstick   bool     // limits nothing
	Peer        bool     // runs in a server of its own, with the other module
	OnlyCounted bool     // is not a funnel: only its instructions are counted
	Scripts     []string // scripts to load into the server before

	// Operation is one call that asks for a token.
	Operation func(limit Limit) Operation
}

// exampleTAT is a stored TAT. It is as long as every TAT of this century, and to CL.THROTTLE a key
// that holds it is an empty funnel.
const exampleTAT = "1600000000000000001"

// Alternatives returns all alternatives, in the order of the tables. Peer names the other module
// and its version.
func Alternatives(peer string) []Alternative {
	throttle, reserve := command("CL.THROTTLE"), command("CL.RESERVE")
	return []Alternative{
		// Like a funnel: 19 digits, and an expiry after the end of the measurement.
		{Name: "set", Title: "SET PX", Yardstick: true, Operation: set},
		{Name: "noop", Title: "a module command that does nothing", Yardstick: true,
			Operation: plain("BENCH.NOOP", arguments(Roomy)...)},
		{Name: "floor", Title: "CL.THROTTLE's server calls, no decision", Yardstick: true, Operation: floor},
		{Name: "throttle", Title: "CL.THROTTLE", Operation: throttle},
		{Name: "reserve", Title: "CL.RESERVE", Operation: reserve},
		{Name: "take", Title: "CL.TAKE", Operation: command("CL.TAKE")},
		{Name: "reserve3", Title: "CL.RESERVE of 3 funnels", Operation: together(reserve, reserve, reserve)},
		{Name: "peer", Title: "CL.THROTTLE of " + strings.TrimRight(peer, " 0123456789"), Peer: true,
			Operation: throttle},
		byLibrary("script", "package limiter's Lua script", allowByLimiter, notZero),
		{Name: "complete-script", Title: "the complete Lua script", Operation: script,
			Scripts: []string{limiter.Script()}},
		byLibrary("redis_rate", "redis_rate v10", allowByRedisRate, isZero),
		{Name: "quota", Title: "CL.RESERVE of a quota", OnlyCounted: true, Operation: quota},
		{Name: "slot", Title: "CL.RESERVE of a slot", OnlyCounted: true, Operation: takeSlot},
		{Name: "slot3", Title: "CL.RESERVE of a slot and 2 funnels", OnlyCounted: true,
			Operation: together(takeSlot, reserve, reserve)},
	}
}

// choose returns the alternatives with these names, in the order of the tables.
func choose(names ...string) []Alternative {
	return slices.DeleteFunc(Alternatives(""), func(a Alternative) bool { return !slices.Contains(names, a.Name) })
}

// words makes an operation whose words are before, the key, and after.
func words(before []string, limited func(int64) bool, after ...string) Operation {
	return Operation{Limited: limited, Words: func(target Target) []string {
		return slices.Concat(before, []string{target.Key}, after)
	}}
}

func plain(name string, after ...string) func(Limit) Operation {
	return func(Limit) Operation { return words([]string{name}, nil, after...) }
}

var set = plain("SET", exampleTAT, "PX", "86400000")

// arguments returns the arguments of CL.THROTTLE. Our scripts take the same.
func arguments(limit Limit) []string {
	return strings.Fields(fmt.Sprint(limit.Capacity, limit.Count, limit.Period, 1))
}

// The first number of the reply to a limited call is not 0, or is 0.
func notZero(reply int64) bool { return reply != 0 }
func isZero(reply int64) bool  { return reply == 0 }

// command is a command that takes arguments and replies like CL.THROTTLE.
func command(name string) func(Limit) Operation {
	return func(limit Limit) Operation { return words([]string{name}, notZero, arguments(limit)...) }
}

// floor makes an operation of the two commands of marker/marker.c: one replies as an allowed call
// does, and the other as a limited call.
func floor(limit Limit) Operation {
	if limit == Narrow {
		return command("BENCH.LIMIT")(limit)
	}
	return command("BENCH.ALLOW")(limit)
}

// together makes one call of the rows of several calls. Their keys end in a, b, c and so on.
func together(calls ...func(Limit) Operation) func(Limit) Operation {
	return func(limit Limit) Operation {
		return Operation{Limited: notZero, Words: func(target Target) (all []string) {
			for i, row := range calls {
				words := row(limit).Words(Target{target.Key + string(rune('a'+i)), target.Unique})
				all = append(all, words[min(i, 1):]...) // the first has the command's name
			}
			return all
		}}
	}
}

// quota uses 1 of a quota whose limit is the capacity, until a full funnel would have drained.
func quota(limit Limit) Operation {
	until := time.Now().Unix() + limit.Capacity*limit.Period/limit.Count
	return words([]string{"CL.RESERVE"}, notZero, fmt.Sprint(limit.Capacity), "UNTIL", fmt.Sprint(until), "1")
}

const slotSeconds = "3600" // no slot ends during the measurement

// takeSlot takes a slot and does not give it back. The limit of the slots is the capacity.
func takeSlot(limit Limit) Operation {
	return Operation{Limited: notZero, Words: func(target Target) []string {
		return []string{"CL.RESERVE", target.Key, fmt.Sprint(limit.Capacity), "SLOTS", slotSeconds, target.holder()}
	}}
}

// script calls the script that clients of other languages load.
func script(limit Limit) Operation {
	return words([]string{"EVALSHA", hash(limiter.Script()), "1"}, notZero,
		append([]string{"reserve"}, arguments(limit)...)...)
}
