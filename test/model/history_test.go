package model_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// What concurrent clients did and saw, and when: the record of which porcupine finds out
// whether there is an order of the calls, each somewhere between its start and its end,
// in which the contract gives the same answers. If there is none, calls are not atomic.
//
// The clock is set by the clients: that is part of the record, so the contract knows
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

// resultOf reads the answer to an operation.
func resultOf(operation operation, answer *redis.Cmd) (got result) {
	err := answer.Err()
	switch {
	case err == redis.Nil:
	case operation.action == throttle:
		var numbers []int64
		if numbers, err = answer.Int64Slice(); len(numbers) == len(got.reply) {
			got.reply = [5]int64(numbers)
		}
	case operation.action == read:
		var text string
		if text, err = answer.Text(); err == nil {
			got.tat, err = strconv.ParseInt(text, 10, 64)
		}
	}
	if err != nil && err != redis.Nil {
		return result{unknown: true}
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

// model is the contract. What went without an answer was done, or not.
var model = (&porcupine.NondeterministicModel{
	Partition: byFunnel,
	Init:      func() []any { return []any{world{}} },
	Step: func(state, input, output any) []any {
		before := state.(world)
		after, expected := input.(operation).in(before)
		switch {
		case output.(result).unknown:
			return []any{before, after}
		case output != expected:
			return nil
		}
		return []any{after}
	},
}).ToModel()

// byFunnel cuts a history into one for each funnel. The clock belongs to all.
func byFunnel(operations []porcupine.Operation) (parts [][]porcupine.Operation) {
	funnels := map[string][]porcupine.Operation{}
	var clocks []porcupine.Operation
	for _, o := range operations {
		if operation := o.Input.(operation); operation.action == setClock {
			clocks = append(clocks, o)
		} else {
			funnels[operation.funnel.key] = append(funnels[operation.funnel.key], o)
		}
	}
	for _, part := range funnels {
		parts = append(parts, append(part, clocks...))
	}
	return parts
}

// A history is the record of what clients did and saw.
type history struct {
	began      time.Time
	mutex      sync.Mutex
	operations []porcupine.Operation
	settled    int // of the operations: no server will execute them any more
}

func newHistory() *history { return &history{began: time.Now()} }

// record does something and writes down when and what.
func (h *history) record(client int, operation operation, do func(operation) result) {
	called := time.Since(h.began) // by the monotonic clock
	result := do(operation)
	returned := time.Since(h.began)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: operation, Call: int64(called), Output: result, Return: int64(returned),
	})
}

// settle is called when the server has ended. Until then it may have executed the
// operations that went without an answer.
func (h *history) settle() {
	now := time.Since(h.began)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := h.settled; i < len(h.operations); i++ {
		if h.operations[i].Output.(result).unknown {
			h.operations[i].Return = int64(now)
		}
	}
	h.settled = len(h.operations)
}

// size is the number of operations.
func (h *history) size() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.operations)
}

// count counts the operations that went without an answer, and calls by what was
// answered.
func (h *history) count() (allowed, limited, unknown int) {
	for _, recorded := range h.operations {
		result := recorded.Output.(result)
		switch {
		case result.unknown:
			unknown++
		case recorded.Input.(operation).action != throttle:
		case result.reply[0] == 0:
			allowed++
		default:
			limited++
		}
	}
	return allowed, limited, unknown
}

func (h *history) String() string {
	allowed, limited, unknown := h.count()
	return fmt.Sprintf("%d operations, %d calls allowed, %d limited, %d without an answer", h.size(), allowed, limited, unknown)
}

// check searches for an order of the operations that the contract allows.
func (h *history) check() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model, h.operations, servertest.Patience)
}

// requireLinearizable requires that there is such an order. If not, it leaves a page
// behind that shows how far the operations can be explained.
func (h *history) requireLinearizable(t testing.TB) {
	t.Helper()
	allowed, limited, _ := h.count()
	require.NotZero(t, allowed)
	require.NotZero(t, limited)
	verdict := h.check()
	if verdict != porcupine.Ok {
		_, information := porcupine.CheckOperationsVerbose(model, h.operations, 10*time.Second)
		page, err := os.CreateTemp("", "not-linearizable-*.html")
		require.NoError(t, err)
		defer page.Close()
		require.NoError(t, porcupine.Visualize(model, information, page))
		t.Logf("see %s", page.Name())
	}
	require.Equal(t, porcupine.Ok, verdict)
	t.Logf("%v: linearizable", h)
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
		return resultOf(operation, answer)
	}
}

const clients = 8

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

// work has clients execute operations at once, each in its own way, and records it.
func (h *history) work(operations int, next func() operation, connect func() func(operation) result) {
	var running sync.WaitGroup
	for client := range clients {
		do := connect()
		running.Go(func() {
			for range operations {
				h.record(client, next(), do)
			}
		})
	}
	running.Wait()
}
