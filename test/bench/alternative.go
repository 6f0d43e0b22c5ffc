package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/textbook"
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

// Alternatives returns all that can be measured, in the order of the tables.
func Alternatives(peer string) []Alternative {
	return []Alternative{
		// Like a funnel: 19 digits, and an expiry that is not reached meanwhile.
		{Name: "set", Title: "SET PX", Yardstick: true, Operation: set},
		{Name: "get", Title: "GET", Yardstick: true, Operation: plain("GET")},
		{Name: "noop", Title: "a module command that does nothing", Yardstick: true,
			Operation: plain("BENCH.NOOP", arguments(Roomy, 1)...)},
		{Name: "floor", Title: "CL.THROTTLE's server calls, no decision", Yardstick: true, Operation: floor},
		{Name: "throttle", Title: "CL.THROTTLE", Peeks: true, Operation: command("CL.THROTTLE")},
		{Name: "reserve-floor", Title: "CL.RESERVE's server calls, no decision", Yardstick: true, Operation: reserveFloor},
		{Name: "reserve", Title: "CL.RESERVE", Operation: command("CL.RESERVE")},
		{Name: "take", Title: "CL.TAKE", Operation: command("CL.TAKE")},
		{Name: "throttle3", Title: "3 calls of CL.THROTTLE, sent at once", Operation: three(command("CL.THROTTLE"), false)},
		{Name: "reserve3-floor", Title: "CL.RESERVE of 3 funnels: server calls, no decision", Yardstick: true, Operation: three(reserveFloor, true)},
		{Name: "reserve3", Title: "CL.RESERVE of 3 funnels", Operation: three(command("CL.RESERVE"), true)},
		{Name: "peer", Title: "CL.THROTTLE of " + strings.TrimRight(peer, " 0123456789"), Peer: true, Peeks: true, Operation: command("CL.THROTTLE")},
		{Name: "script", Title: "package limiter's Lua script", Script: limiterScript, Operation: limiterCall},
		{Name: "complete-script", Title: "the complete Lua script", Peeks: true,
			Script: limiter.Script(), Operation: script},
		{Name: "lua-gcra", Title: "GCRA in a Lua script", Peeks: true,
			Script: gcraScript, Operation: command("EVALSHA", hash(gcraScript), "1")},
		{Name: "lua-funnel", Title: "funnel in a Lua script, on a hash", Script: hashFunnelScript, Operation: hashFunnel},
		{Name: "redis_rate", Title: "redis_rate v10", Script: redisRateScript, Operation: redisRate},
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
	return Operation{Commands: func(call Call) [][]string { return [][]string{slices.Concat(before, []string{call.Key}, after)} }}
}

func plain(name string, after ...string) func(Limit, int64) Operation {
	return func(Limit, int64) Operation { return words([]string{name}, after...) }
}

var set = plain("SET", exampleTAT, "PX", "86400000")

// arguments returns those of CL.THROTTLE. Our scripts take the same.
func arguments(limit Limit, quantity int64) []string {
	return strings.Fields(fmt.Sprint(limit.Capacity, limit.Count, limit.Period, quantity))
}

// command takes arguments and replies like CL.THROTTLE.
func command(before ...string) func(Limit, int64) Operation {
	return func(limit Limit, quantity int64) Operation {
		operation := words(before, arguments(limit, quantity)...)
		operation.Limited = func(replies []int64) bool { return replies[0] != 0 }
		return operation
	}
}

// floor is the command of marker/floor.c that replies as this limit would.
func floor(limit Limit, quantity int64) Operation {
	return command(map[bool]string{false: "BENCH.ALLOW", true: "BENCH.LIMIT"}[limit == Narrow])(limit, quantity)
}

// reserveFloor is the same for CL.RESERVE.
func reserveFloor(limit Limit, quantity int64) Operation {
	return command(map[bool]string{false: "BENCH.TAKE", true: "BENCH.STOP"}[limit == Narrow])(limit, quantity)
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
	name := map[bool]string{false: "reserve", true: "peek"}[quantity == 0]
	operation := words([]string{"EVALSHA", hash(limiter.Script()), "1"}, append([]string{name}, arguments(limit, quantity)...)...)
	operation.Limited = func(replies []int64) bool { return replies[0] != 0 }
	return operation
}

// limiterCall is a call of the script that package limiter sends first. It replies an integer
// if nothing was taken.
func limiterCall(limit Limit, _ int64) Operation {
	evalsha := record(func(client *redis.Client) error {
		_, err := limiter.New(client, limiter.WithPath(limiter.PathScript)).Allow(context.Background(), "",
			limiter.Per(int(limit.Count), time.Duration(limit.Period)*time.Second).Burst(int(limit.Capacity)))
		return err
	})
	after := strings.Fields(fmt.Sprintln(evalsha[4:]...))
	operation := words([]string{"EVALSHA", hash(limiterScript), "1"}, after...)
	operation.Limited = func(replies []int64) bool { return replies[0] != 0 }
	return operation
}

var limiterScript = record(func(client *redis.Client) error {
	_, err := limiter.New(client, limiter.WithPath(limiter.PathScript)).Allow(context.Background(), "", limiter.PerSecond(1))
	return err
})[1].(string)

func hash(script string) string { return redis.NewScript(script).Hash() }

// hashFunnel is a call of the script of textbook.Hash, which replies 1 for allowed.
func hashFunnel(limit Limit, _ int64) Operation {
	evalsha := recordHashFunnel(int(limit.Capacity), float64(limit.Count)/float64(limit.Period))
	operation := words([]string{"EVALSHA", hash(hashFunnelScript), "1"}, strings.Fields(fmt.Sprintln(evalsha[4:]...))...)
	operation.Limited = func(replies []int64) bool { return replies[0] == 0 }
	return operation
}

func recordHashFunnel(capacity int, leakingRate float64) []any {
	return record(func(client *redis.Client) error {
		funnels, err := textbook.NewHash(client, capacity, leakingRate)
		if err != nil {
			return err
		}
		_, err = funnels.Allow(context.Background(), "")
		return err
	})
}

var hashFunnelScript = recordHashFunnel(1, 1)[1].(string)

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

// record returns the EVAL that a library sends, because none exports its script.
func record(allow func(*redis.Client) error) (eval []any) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	sent := errors.New("sent")
	client.AddHook(recorder(func(command redis.Cmder) error {
		eval = command.Args()
		if command.Name() == "evalsha" {
			return noScript{} // makes the library send the source
		}
		return sent
	}))
	if err := allow(client); !errors.Is(err, sent) {
		panic(fmt.Sprintf("bench: a library has not been recorded: %v", err))
	}
	return eval
}

// recordRedisRate works for any version of redis_rate in go.mod.
func recordRedisRate(limit redis_rate.Limit, key string) []any {
	return record(func(client *redis.Client) error {
		_, err := redis_rate.NewLimiter(client).Allow(context.Background(), key, limit)
		return err
	})
}

// A recorder replaces a connection.
type recorder func(redis.Cmder) error

func (r recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r recorder) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error { return r(command) }
}

// noScript is the error of a server that does not know a script.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT recorded, not run" }
func (noScript) RedisError()   {}

var redisRateScript = recordRedisRate(redis_rate.PerSecond(1), "")[1].(string)

// redisRate takes the same numbers as CL.THROTTLE. Its reply begins with the number of
// tokens that were granted.
func redisRate(limit Limit, quantity int64) Operation {
	operation := command("EVALSHA", hash(redisRateScript), "1")(limit, quantity)
	commands := operation.Commands
	operation.Commands = func(call Call) [][]string { call.Key = "rate:" + call.Key; return commands(call) }
	operation.Limited = func(replies []int64) bool { return replies[0] == 0 }
	return operation
}
