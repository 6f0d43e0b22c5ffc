package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/hashfunnel"
)

// Where an alternative runs: the server with our module, or one of its own with a
// foreign module.
const (
	OnFunnel = "funnel"
	OnPeer   = "peer"
)

// An Alternative is one way to limit a rate, or a plain command to compare with.
type Alternative struct {
	// Name is how options and JSON call it.
	Name string

	// Title is how tables call it.
	Title string

	// Answer says what a caller learns from one call.
	Answer string

	// Server is OnFunnel or OnPeer.
	Server string

	// Limits says whether it limits anything: plain commands do not.
	Limits bool

	// Peeks says whether a quantity of 0 looks without taking.
	Peeks bool

	// Setup prepares a server, by loading a script for instance. May be nil.
	Setup func(ctx context.Context, client *redis.Client) error

	// Operation is one call that asks for quantity tokens: 1, or 0 if Peeks.
	// Plain commands ignore the arguments.
	Operation func(limit Limit, quantity int64) Operation
}

// exampleTAT is a stored TAT: it has the length of every TAT of this century, and
// CL.THROTTLE takes a key that holds it for an empty funnel.
const exampleTAT = "1795238209689988344"

//go:embed scripts/gcra.lua
var gcraScript string

// Alternatives are all that can be measured, in the order of the tables. The
// first three limit nothing: they are the yardsticks.
func Alternatives() []Alternative {
	return []Alternative{
		{
			Name: "get", Title: "GET", Answer: "a value", Server: OnFunnel,
			Operation: plain("GET", "{key}"),
		}, {
			Name: "set", Title: "SET PX", Answer: "OK", Server: OnFunnel,
			// Like a funnel's: 19 digits, and an expiry that does not come meanwhile.
			Operation: plain("SET", "{key}", exampleTAT, "PX", "86400000"),
		}, {
			Name: "noop", Title: "a module command that does nothing", Answer: "five integers", Server: OnFunnel,
			Operation: plain(append([]string{"BENCH.NOOP", "{key}"}, arguments(Roomy, 1)...)...),
		}, {
			Name: "throttle", Title: "CL.THROTTLE", Answer: "five integers", Server: OnFunnel, Limits: true, Peeks: true,
			Operation: throttle,
		}, {
			Name: "peer", Title: "CL.THROTTLE of the other module", Answer: "five integers", Server: OnPeer, Limits: true, Peeks: true,
			Operation: throttle,
		}, {
			Name: "script", Title: "the same in a script, of package limiter", Answer: "five integers", Server: OnFunnel, Limits: true, Peeks: true,
			Setup:     loadScript(limiter.Script),
			Operation: scripted(limiter.Script),
		}, {
			Name: "lua-gcra", Title: "GCRA in a Lua script", Answer: "five integers", Server: OnFunnel, Limits: true, Peeks: true,
			Setup:     loadScript(gcraScript),
			Operation: scripted(gcraScript),
		}, {
			Name: "lua-funnel", Title: "funnel in a Lua script, on a hash", Answer: "allowed or not", Server: OnFunnel, Limits: true,
			Setup:     loadScript(hashfunnel.Script),
			Operation: hashFunnel,
		}, {
			Name: "redis_rate", Title: "redis_rate v10", Answer: "five values", Server: OnFunnel, Limits: true,
			Setup:     loadRedisRate,
			Operation: redisRate,
		}, {
			Name: "window", Title: "sliding window on a sorted set", Answer: "allowed or not", Server: OnFunnel, Limits: true,
			Operation: window,
		}, {
			Name: "incr", Title: "INCR and EXPIRE", Answer: "allowed or not", Server: OnFunnel, Limits: true,
			Setup:     needExpireNX,
			Operation: counter,
		},
	}
}

// Choose returns the alternatives of these names, in the order of the tables; all
// of them for an empty list. Those that need a foreign module are left out, or an
// error if they are named, unless there is one.
func Choose(names []string, withPeer bool) ([]Alternative, error) {
	var known []string
	var chosen []Alternative
	for _, alternative := range Alternatives() {
		known = append(known, alternative.Name)
		named := slices.Contains(names, alternative.Name)
		if alternative.Server == OnPeer && !withPeer {
			if named {
				return nil, errors.New("the alternative 'peer' needs another module: name one with -peer /path/to/module.so")
			}
			continue
		}
		if named || len(names) == 0 {
			chosen = append(chosen, alternative)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no alternative '%s': choose from %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func outcome(limited bool) Outcome {
	if limited {
		return Limited
	}
	return Allowed
}

func plain(words ...string) func(Limit, int64) Operation {
	return func(Limit, int64) Operation { return Operation{Commands: [][]string{words}} }
}

// arguments are those of CL.THROTTLE, which the scripts of ours take as well.
func arguments(limit Limit, quantity int64) []string {
	numbers := []int64{limit.Capacity, limit.Count, limit.Period, quantity}
	words := make([]string, len(numbers))
	for i, number := range numbers {
		words[i] = strconv.FormatInt(number, 10)
	}
	return words
}

func throttle(limit Limit, quantity int64) Operation {
	words := append([]string{"CL.THROTTLE", "{key}"}, arguments(limit, quantity)...)
	return Operation{
		Commands: [][]string{words},
		Outcome:  func(replies []int64) Outcome { return outcome(replies[0] != 0) },
	}
}

func loadScript(source string) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, client *redis.Client) error {
		return client.ScriptLoad(ctx, source).Err()
	}
}

// scripted is a call of a script that takes and replies what CL.THROTTLE does.
func scripted(source string) func(Limit, int64) Operation {
	hash := redis.NewScript(source).Hash()
	return func(limit Limit, quantity int64) Operation {
		words := append([]string{"EVALSHA", hash, "1", "{key}"}, arguments(limit, quantity)...)
		return Operation{
			Commands: [][]string{words},
			Outcome:  func(replies []int64) Outcome { return outcome(replies[0] != 0) },
		}
	}
}

// hashFunnel is a call of the script of package hashfunnel, which takes the leaking
// rate as one number and replies 1 for allowed.
func hashFunnel(limit Limit, _ int64) Operation {
	leakingRate := strconv.FormatFloat(float64(limit.Count)/float64(limit.Period), 'g', -1, 64)
	return Operation{
		Commands: [][]string{{"EVALSHA", redis.NewScript(hashfunnel.Script).Hash(), "1", "{key}",
			strconv.FormatInt(limit.Capacity, 10), leakingRate}},
		Outcome: func(replies []int64) Outcome { return outcome(replies[0] == 0) },
	}
}

// window is the usual sliding window: every call leaves a member
// in a sorted set, scored by its time, and whatever is older than the window is
// cut off. The documents use the millisecond as the member, which makes one of
// two calls in the same millisecond; a number that occurs once mends that.
//
// A pipeline cannot decide halfway, so a call that is limited leaves its member,
// too: somebody who keeps calling stays limited. That is the seed's behaviour.
func window(limit Limit, _ int64) Operation {
	seconds := limit.Drain()
	return Operation{
		Commands: [][]string{
			{"ZADD", "{key}", "{now}", "{now}-{unique}"},
			{"ZREMRANGEBYSCORE", "{key}", "0", "{before}"},
			{"ZCARD", "{key}"},
			// A second more than the window, which the server's clock may enter late.
			{"EXPIRE", "{key}", strconv.FormatInt(seconds+1, 10)},
		},
		Window:  seconds,
		Outcome: func(replies []int64) Outcome { return outcome(replies[2] > limit.Capacity) },
	}
}

// counter is a fixed window: the first call of a window starts it. It allows up to
// twice the capacity around the border of two windows.
func counter(limit Limit, _ int64) Operation {
	return Operation{
		Commands: [][]string{
			{"INCR", "{key}"},
			// Sent every time, since a client that dies between the first INCR and
			// its EXPIRE would leave a counter that limits for ever.
			{"EXPIRE", "{key}", strconv.FormatInt(limit.Drain(), 10), "NX"},
		},
		Outcome: func(replies []int64) Outcome { return outcome(replies[0] > limit.Capacity) },
	}
}

// needExpireNX explains what would otherwise be a syntax error.
func needExpireNX(ctx context.Context, client *redis.Client) error {
	const key = "bench:expire-nx"
	err := client.Do(ctx, "EXPIRE", key, 1, "NX").Err()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the alternative 'incr' needs EXPIRE with NX, that is Redis 7.0 or newer, or Valkey: %w", err)
	}
	return err
}
