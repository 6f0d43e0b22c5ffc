package bench

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"funnel/limiter"
)

// An Alternative is one way to limit a rate, or a command to compare with.
type Alternative struct {
	Name      string // in options and files
	Title     string // in tables
	Yardstick bool   // limits nothing
	Peer      bool   // runs in a server of its own, with the other module
	Peeks     bool   // a quantity of 0 peeks
	Script    string // is loaded into the server first

	// Operation is one call that asks for quantity tokens: 1, or 0 if Peeks.
	Operation func(limit Limit, quantity int64) Operation
}

// exampleTAT is a stored TAT. It has the length of every TAT of this century, and for
// CL.THROTTLE a key that holds it is an empty funnel.
const exampleTAT = "1600000000000000001"

//go:embed scripts/gcra.lua
var gcraScript string

// Alternatives returns all that can be measured, in the order of the tables. Peer names the
// other module and its version.
func Alternatives(peer string) []Alternative {
	throttle, reserve := command("CL.THROTTLE"), command("CL.RESERVE")
	return []Alternative{
		// Like a funnel: 19 digits, and an expiry that is not reached meanwhile.
		{Name: "set", Title: "SET PX", Yardstick: true, Operation: set},
		{Name: "get", Title: "GET", Yardstick: true, Operation: plain("GET")},
		{Name: "noop", Title: "a module command that does nothing", Yardstick: true,
			Operation: plain("BENCH.NOOP", arguments(Roomy, 1)...)},
		{Name: "floor", Title: "CL.THROTTLE's server calls, no decision", Yardstick: true, Operation: floor},
		{Name: "throttle", Title: "CL.THROTTLE", Peeks: true, Operation: throttle},
		{Name: "reserve", Title: "CL.RESERVE", Operation: reserve},
		{Name: "take", Title: "CL.TAKE", Operation: command("CL.TAKE")},
		{Name: "throttle3", Title: "3 calls of CL.THROTTLE, sent at once", Operation: three(throttle, false)},
		{Name: "reserve3", Title: "CL.RESERVE of 3 funnels", Operation: three(reserve, true)},
		{Name: "peer", Title: "CL.THROTTLE of " + strings.TrimRight(peer, " 0123456789"), Peer: true, Peeks: true,
			Operation: throttle},
		byLibrary("script", "package limiter's Lua script", allowByLimiter, notZero),
		{Name: "complete-script", Title: "the complete Lua script", Peeks: true, Script: limiter.Script(), Operation: script},
		{Name: "lua-gcra", Title: "GCRA in a Lua script", Peeks: true, Script: gcraScript,
			Operation: command("EVALSHA", hash(gcraScript), "1")},
		byLibrary("lua-funnel", "funnel in a Lua script, on a hash", allowByHash, isZero),
		byLibrary("redis_rate", "redis_rate v10", allowByRedisRate, isZero),
		{Name: "window", Title: "sliding window on a sorted set", Operation: window},
		{Name: "incr", Title: "INCR and EXPIRE", Operation: counter},
	}
}

// choose returns the alternatives with these names, in the order of the tables.
func choose(names ...string) []Alternative {
	return slices.DeleteFunc(Alternatives(""), func(a Alternative) bool { return !slices.Contains(names, a.Name) })
}

// words makes an operation of one command that has the key after its first words.
func words(before []string, after ...string) Operation {
	return Operation{Commands: func(call Call) [][]string {
		return [][]string{slices.Concat(before, []string{call.Key}, after)}
	}}
}

func plain(name string, after ...string) func(Limit, int64) Operation {
	return func(Limit, int64) Operation { return words([]string{name}, after...) }
}

var set = plain("SET", exampleTAT, "PX", "86400000")

// arguments returns those of CL.THROTTLE. Our scripts take the same.
func arguments(limit Limit, quantity int64) []string {
	return strings.Fields(fmt.Sprint(limit.Capacity, limit.Count, limit.Period, quantity))
}

// What the first number of a reply says of a call that was limited.
func notZero(replies []int64) bool { return replies[0] != 0 }
func isZero(replies []int64) bool  { return replies[0] == 0 }

// command takes arguments and replies like CL.THROTTLE.
func command(before ...string) func(Limit, int64) Operation {
	return func(limit Limit, quantity int64) Operation {
		operation := words(before, arguments(limit, quantity)...)
		operation.Limited = notZero
		return operation
	}
}

// floor is a command of marker/marker.c: one replies as an allowed call, one as a limited call.
func floor(limit Limit, quantity int64) Operation {
	if limit == Narrow {
		return command("BENCH.LIMIT")(limit, quantity)
	}
	return command("BENCH.ALLOW")(limit, quantity)
}

// three turns a call of one funnel into a call of three, whose keys end in a, b and c: three
// commands, or one with the words of all.
func three(one func(Limit, int64) Operation, joined bool) func(Limit, int64) Operation {
	return func(limit Limit, quantity int64) Operation {
		operation := one(limit, quantity)
		commands := operation.Commands
		operation.Commands = func(call Call) (all [][]string) {
			for _, suffix := range []string{"a", "b", "c"} {
				words := commands(Call{call.Key + suffix, call.Now, call.Unique})[0]
				if joined && len(all) > 0 {
					all[0] = append(all[0], words[1:]...)
				} else {
					all = append(all, words)
				}
			}
			return all
		}
		operation.Limited = func(replies []int64) bool { return slices.Max(replies) != 0 }
		return operation
	}
}

// script is a call of the script that clients of other languages load.
func script(limit Limit, quantity int64) Operation {
	after := append([]string{"reserve"}, arguments(limit, quantity)...)
	if quantity == 0 {
		after[0] = "peek"
	}
	operation := words([]string{"EVALSHA", hash(limiter.Script()), "1"}, after...)
	operation.Limited = notZero
	return operation
}

// window is the usual sliding window: every call adds a member to a sorted set, scored
// by its time, and removes older ones. A pipeline cannot decide halfway, so a limited
// call adds its member, too: a client that keeps calling stays limited.
func window(limit Limit, _ int64) Operation {
	return Operation{
		Commands: func(call Call) [][]string {
			return [][]string{
				{"ZADD", call.Key, fmt.Sprint(call.Now), fmt.Sprintf("%d-%012d", call.Now, call.Unique)},
				{"ZREMRANGEBYSCORE", call.Key, "0", fmt.Sprint(call.Now - limit.Drain()*1000)},
				{"ZCARD", call.Key},
				// A second more than the window, because the server's clock may be behind.
				{"EXPIRE", call.Key, fmt.Sprint(limit.Drain() + 1)},
			}
		},
		Limited: func(replies []int64) bool { return replies[2] > limit.Capacity },
	}
}

// counter is a fixed window: the first call of a window starts it. It allows up to
// twice the capacity around the border of two windows.
func counter(limit Limit, _ int64) Operation {
	return Operation{
		Commands: func(call Call) [][]string {
			// EXPIRE is sent every time, because a client that dies between the first
			// INCR and its EXPIRE would leave a counter that limits for ever.
			return [][]string{{"INCR", call.Key}, {"EXPIRE", call.Key, fmt.Sprint(limit.Drain()), "NX"}}
		},
		Limited: func(replies []int64) bool { return replies[0] > limit.Capacity },
	}
}
