package bench

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"funnel/limiter"
)

// An Alternative is one way to limit a rate, or a command to compare with.
type Alternative struct {
	Name        string   // in options and files
	Title       string   // in tables
	Yardstick   bool     // limits nothing
	Peer        bool     // runs in a server of its own, with the other module
	Peeks       bool     // a quantity of 0 peeks
	OnlyCounted bool     // no funnel: only its instructions are counted
	Scripts     []string // are loaded into the server first

	// Operation is one call that asks for quantity tokens: 1, or 0 if Peeks.
	Operation func(limit Limit, quantity int64) Operation
}

// exampleTAT is a stored TAT. It has the length of every TAT of this century, and for
// CL.THROTTLE a key that holds it is an empty funnel.
const exampleTAT = "1600000000000000001"

//go:embed scripts/slots.lua
var slotsScript string

// Alternatives returns all that can be measured, in the order of the tables. Peer names the
// other module and its version.
func Alternatives(peer string) []Alternative {
	throttle, reserve := command("CL.THROTTLE"), command("CL.RESERVE")
	slot := takeSlot([]string{"CL.RESERVE"}, notZero, "SLOTS")
	slotByScript := takeSlot([]string{"EVALSHA", hash(slotsScript), "1"}, isZero)
	redisRate := byLibrary("redis_rate", "redis_rate v10", allowByRedisRate, isZero)
	return []Alternative{
		// Like a funnel: 19 digits, and an expiry that is not reached meanwhile.
		{Name: "set", Title: "SET PX", Yardstick: true, Operation: set},
		{Name: "noop", Title: "a module command that does nothing", Yardstick: true,
			Operation: plain("BENCH.NOOP", arguments(Roomy, 1)...)},
		{Name: "floor", Title: "CL.THROTTLE's server calls, no decision", Yardstick: true, Operation: floor},
		{Name: "throttle", Title: "CL.THROTTLE", Peeks: true, Operation: throttle},
		{Name: "reserve", Title: "CL.RESERVE", Operation: reserve},
		{Name: "take", Title: "CL.TAKE", Operation: command("CL.TAKE")},
		{Name: "throttle3", Title: "3 calls of CL.THROTTLE, sent at once",
			Operation: together(false, throttle, throttle, throttle)},
		{Name: "reserve3", Title: "CL.RESERVE of 3 funnels", Operation: together(true, reserve, reserve, reserve)},
		{Name: "peer", Title: "CL.THROTTLE of " + strings.TrimRight(peer, " 0123456789"), Peer: true, Peeks: true,
			Operation: throttle},
		byLibrary("script", "package limiter's Lua script", allowByLimiter, notZero),
		{Name: "complete-script", Title: "the complete Lua script", Peeks: true, Operation: script,
			Scripts: []string{limiter.Script()}},
		byLibrary("lua-funnel", "funnel in a Lua script, on a hash", allowByHash, isZero),
		redisRate,
		{Name: "window", Title: "sliding window on a sorted set", Operation: window},
		{Name: "incr", Title: "INCR and EXPIRE", Operation: counter},
		{Name: "quota", Title: "CL.RESERVE of a quota", OnlyCounted: true, Operation: quota},
		{Name: "slot", Title: "CL.RESERVE of a slot", OnlyCounted: true, Operation: slot},
		{Name: "slot-renewal", Title: "CL.RESERVE of the same slot again", OnlyCounted: true, Yardstick: true,
			Operation: plain("CL.RESERVE", "1", "SLOTS", slotSeconds, Call{}.holder())},
		{Name: "slot-script", Title: "a slot in a Lua script", OnlyCounted: true, Operation: slotByScript,
			Scripts: []string{slotsScript}},
		{Name: "slot3", Title: "CL.RESERVE of a slot and 2 funnels", OnlyCounted: true,
			Operation: together(true, slot, reserve, reserve)},
		{Name: "slot-script3", Title: "that script and 2 calls of redis_rate, sent at once", OnlyCounted: true,
			Operation: together(false, slotByScript, redisRate.Operation, redisRate.Operation),
			Scripts:   append([]string{slotsScript}, redisRate.Scripts...)},
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

// arguments returns the arguments of CL.THROTTLE. Our scripts take the same.
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

// together makes one call of several, each of one command. Their keys end in a, b, c and so on.
// If joined, one command has the words of all.
func together(joined bool, calls ...func(Limit, int64) Operation) func(Limit, int64) Operation {
	return func(limit Limit, quantity int64) Operation {
		var operations []Operation
		for _, call := range calls {
			operations = append(operations, call(limit, quantity))
		}
		return Operation{
			Commands: func(call Call) (all [][]string) {
				for i, operation := range operations {
					words := operation.Commands(Call{call.Key + string(rune('a'+i)), call.Now, call.Unique})[0]
					if joined && i > 0 {
						all[0] = append(all[0], words[1:]...)
					} else {
						all = append(all, words)
					}
				}
				return all
			},
			Limited: func(replies []int64) (limited bool) {
				for i, reply := range replies {
					limited = limited || operations[i].Limited([]int64{reply})
				}
				return limited
			},
		}
	}
}

// quota is a sum of the capacity, until a full funnel would have drained.
func quota(limit Limit, quantity int64) Operation {
	until := time.Now().Unix() + limit.Drain()
	operation := words([]string{"CL.RESERVE"}, strings.Fields(fmt.Sprint(limit.Capacity, " UNTIL ", until, quantity))...)
	operation.Limited = notZero
	return operation
}

const slotSeconds = "3600" // so long that no slot ends meanwhile

// takeSlot takes one of as many slots as the capacity says, and gives none back. The words between
// stand after the limit.
func takeSlot(before []string, limited func([]int64) bool, between ...string) func(Limit, int64) Operation {
	return func(limit Limit, _ int64) Operation {
		return Operation{Limited: limited, Commands: func(call Call) [][]string {
			return [][]string{slices.Concat(before, []string{call.Key, fmt.Sprint(limit.Capacity)}, between,
				[]string{slotSeconds, call.holder()})}
		}}
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
				{"ZADD", call.Key, fmt.Sprint(call.Now), call.holder()},
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
