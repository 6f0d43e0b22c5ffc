package model_test

import (
	"context"
	"math/big"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// What a client does in a history, what it sees, and what it ought to see.
//
// The clock is set by the clients: that is part of the history, so the contract knows
// every answer to the nanosecond.

// An action is what an operation does.
type action int

const (
	throttle action = iota // CL.THROTTLE
	read                   // GET
	setClock               // FUNNEL.DEBUG CLOCK
)

// An operation is what a client asked for: the input of porcupine's model.
type operation struct {
	action   action
	funnel   funnel
	quantity int64
	instant  int64 // to set the clock to
}

// A funnel is a key with its rate.
type funnel struct {
	key                     string
	capacity, count, period int64
}

// A result is what a client was answered: the output of porcupine's model.
type result struct {
	// unknown says that there was no answer: the server may have done what it was
	// asked, or not.
	unknown bool

	reply [5]int64
	tat   int64 // what was read, 0 for no key
}

// words are the operation's command.
func (o operation) words() []any {
	switch f := o.funnel; o.action {
	case setClock:
		return []any{"funnel.debug", "clock", o.instant}
	case read:
		return []any{"get", f.key}
	default:
		return []any{"cl.throttle", f.key, f.capacity, f.count, f.period, o.quantity}
	}
}

// resultOf reads the answer to an operation. An answer of another form equals none that
// is expected.
func resultOf(answer *redis.Cmd) (got result) {
	got.unknown = servertest.IgnoreNil(answer.Err()) != nil
	switch value := answer.Val().(type) {
	case []any:
		numbers, _ := answer.Int64Slice()
		copy(got.reply[:], numbers)
	case string:
		got.tat, _ = strconv.ParseInt(value, 10, 64)
	}
	return got
}

// A world is all that decides over an answer on one funnel.
type world struct{ now, tat int64 }

// in is what comes of an operation by the contract.
func (o operation) in(before world) (after world, expected result) {
	switch o.action {
	case setClock:
		return world{o.instant, before.tat}, result{}
	case read:
		return before, result{tat: before.tat}
	}
	decision := o.funnel.decide(before, o.quantity)
	return world{before.now, decision.TAT}, result{reply: decision.Reply()}
}

func (f funnel) decide(world world, quantity int64) contract.Decision {
	number := big.NewInt
	call, err := contract.NewFunnel(f.key, number(f.capacity), number(f.count), number(f.period*int64(time.Second)), number(quantity))
	decision, tooLate := call.Decide(number(world.tat), number(world.now))
	if err != "" || tooLate != "" {
		panic(err + tooLate)
	}
	return decision
}

// onServer executes operations as the module's clients do. With replicas, it adds a
// write and waits until that many have confirmed it, and so all that came before it:
// what the operation did, and what it saw. Without that confirmation the answer does not
// count.
func onServer(client *redis.Client, replicas int) func(operation) result {
	return func(operation operation) result {
		ctx := context.Background()
		pipeline := client.Pipeline()
		answer := pipeline.Do(ctx, operation.words()...)
		var confirmed *redis.Cmd
		if replicas > 0 {
			pipeline.Incr(ctx, "mark")
			confirmed = pipeline.Do(ctx, "wait", replicas, servertest.Patience.Milliseconds())
		}
		if _, err := pipeline.Exec(ctx); servertest.IgnoreNil(err) != nil {
			return result{unknown: true}
		}
		if confirmed != nil {
			if count, err := confirmed.Int(); err != nil || count < replicas {
				return result{unknown: true}
			}
		}
		return resultOf(answer)
	}
}

// funnels leak nothing while the clock is set, or some, or nearly at once; and are large
// or small.
var funnels = []funnel{
	{key: "still and large", capacity: 100_000, count: 1, period: 1000},
	{key: "still and small", capacity: 100, count: 1, period: servertest.StillPeriod},
	{key: "leaks 100 per second", capacity: 20, count: 100, period: 1},
	{key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1},
}

// onFunnels is an operation on one of the funnels, at random.
func onFunnels() operation {
	operation := operation{action: throttle, quantity: 1, funnel: funnels[rand.IntN(len(funnels))]}
	switch dice := rand.IntN(100); {
	case dice < 10:
		operation.quantity = 2 + rand.Int64N(3)
	case dice < 20:
		operation.quantity = 0
	case dice < 23:
		operation.quantity = operation.funnel.capacity + 1
	case dice < 50:
		operation.action = read
	}
	return operation
}

// onFunnelsAndClock also sets the clock, forward and backward, at times by an hour.
func onFunnelsAndClock() operation {
	if rand.IntN(100) >= 4 {
		return onFunnels()
	}
	instant := servertest.Epoch.Add(time.Duration(rand.Int64N(int64(400 * time.Millisecond))))
	if rand.IntN(10) == 0 {
		instant = instant.Add(time.Hour)
	}
	return operation{action: setClock, instant: instant.UnixNano()}
}

// startOfTime sets the clock of a server that has just begun to serve clients.
func startOfTime() operation {
	return operation{action: setClock, instant: servertest.Epoch.UnixNano()}
}
