package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
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

// An operation is what a client asked for: the input of porcupine's model. It is about the
// funnels of one group, or sets the clock.
type operation struct {
	group []funnel
	words []string
}

// A funnel is a key with its rate.
type funnel struct {
	key                     string
	capacity, count, period int64
}

// words are the funnel's, of a call.
func (f funnel) words(quantity int64) []string {
	return []string{f.key, fmt.Sprint(f.capacity), fmt.Sprint(f.count), fmt.Sprint(f.period), fmt.Sprint(quantity)}
}

func (o operation) setsClock() bool { return o.words[0] == "funnel.debug" }
func (o operation) reads() bool     { return o.words[0] == "get" }

// A result is what a client was answered: the output of porcupine's model.
type result struct {
	// unknown says that there was no answer: the server may have done what it was
	// asked, or not.
	unknown bool

	reply string // in Go's form; of the clock nothing
}

// resultOf reads the answer to an operation.
func resultOf(operation operation, answer *redis.Cmd) result {
	err := answer.Err()
	switch {
	case err != nil && err != redis.Nil:
		return result{unknown: true}
	case operation.setsClock():
		return result{}
	}
	return result{reply: fmt.Sprint(answer.Val())}
}

// A world is all that decides over answers on one group: what its keys hold.
type world struct {
	now    int64
	values [2]string
}

// in is what comes of an operation by the contract.
func (o operation) in(before world) (after world, expected result) {
	get := func(key string) contract.Value {
		if value := before.values[o.indexOf(key)]; value != "" {
			return contract.Value{Type: "string", Text: value}
		}
		return contract.Value{}
	}
	after = before
	switch {
	case o.setsClock():
		now, err := strconv.ParseInt(o.words[2], 10, 64)
		if err != nil {
			panic(err)
		}
		after.now = now
		return after, result{}
	case o.reads():
		if value := get(o.words[1]); value.Type != "" {
			return after, result{reply: value.Text}
		}
		return after, result{reply: fmt.Sprint(nil)}
	}
	outcome := o.call(before.now, get)
	if outcome.Err != "" {
		panic(outcome.Err)
	}
	for _, write := range outcome.Writes {
		after.values[o.indexOf(write.Key)] = write.Value
	}
	return after, result{reply: fmt.Sprint(outcome.Reply)}
}

func (o operation) call(now int64, get func(string) contract.Value) contract.Outcome {
	if o.words[0] == "cl.throttle" {
		return contract.Throttle(contract.Default, o.words[1:], now, get)
	}
	return contract.Funnels(strings.TrimPrefix(o.words[0], "cl."), contract.Default, o.words[1:], now, get)
}

func (o operation) indexOf(key string) int {
	return slices.IndexFunc(o.group, func(f funnel) bool { return f.key == key })
}

// model is the contract. What went without an answer was done, or not.
var model = (&porcupine.NondeterministicModel{
	Partition: byGroup,
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

// byGroup cuts a history into one for each group of funnels. The clock belongs to all.
func byGroup(operations []porcupine.Operation) (parts [][]porcupine.Operation) {
	groups := map[string][]porcupine.Operation{}
	var clocks []porcupine.Operation
	for _, o := range operations {
		if operation := o.Input.(operation); operation.setsClock() {
			clocks = append(clocks, o)
		} else {
			name := operation.group[0].key
			groups[name] = append(groups[name], o)
		}
	}
	for _, part := range groups {
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

// outcomes counts the calls by command and by what was answered.
func (h *history) outcomes() map[string]int {
	counts := map[string]int{}
	for _, recorded := range h.operations {
		operation, result := recorded.Input.(operation), recorded.Output.(result)
		switch {
		case result.unknown:
			counts["unknown"]++
		case operation.setsClock() || operation.reads():
		default:
			outcome := " limited"
			if strings.HasPrefix(result.reply, "[0 ") {
				outcome = " allowed"
			}
			counts[operation.words[0]+outcome]++
			if len(operation.words) > 10 {
				counts["two funnels"+outcome]++
			}
			if operation.words[0] == "cl.reserve" && outcome == " allowed" && !strings.HasPrefix(result.reply, "[0 0 ") {
				counts["cl.reserve allowed later"]++
			}
		}
	}
	return counts
}

func (h *history) String() string {
	return fmt.Sprintf("%d operations, calls: %v", h.size(), h.outcomes())
}

// check searches for an order of the operations that the contract allows.
func (h *history) check() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model, h.operations, servertest.Patience)
}

// requireLinearizable requires that there is such an order. If not, it leaves a page
// behind that shows how far the operations can be explained.
func (h *history) requireLinearizable(t testing.TB) {
	t.Helper()
	outcomes := h.outcomes()
	for _, outcome := range []string{
		"cl.throttle allowed", "cl.throttle limited", "cl.reserve allowed", "cl.reserve allowed later", "cl.reserve limited",
		"cl.peek allowed", "cl.peek limited", "cl.charge allowed", "cl.charge limited", "cl.refund allowed", "cl.refund limited",
		"two funnels allowed", "two funnels limited",
	} {
		require.NotZero(t, outcomes[outcome], outcome)
	}
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
		answer := pipeline.Do(ctx, servertest.ToAny(operation.words)...)
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

// groups are of funnels that are called together. They leak nothing while the clock is set,
// or some, or nearly at once; and are large or small.
var groups = [][]funnel{
	{{key: "still and large", capacity: 1000, count: 1, period: 1000}, {key: "leaks 100 per second", capacity: 20, count: 100, period: 1}},
	{{key: "still and small", capacity: 100, count: 1, period: servertest.StillPeriod}, {key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1}},
}

// onFunnels is an operation on one funnel of a group or on both, at random.
func onFunnels() operation {
	group := groups[rand.IntN(len(groups))]
	words := func(funnel funnel) []string {
		switch dice := rand.IntN(100); {
		case dice < 20:
			return funnel.words(2 + rand.Int64N(3))
		case dice < 30:
			return funnel.words(0)
		case dice < 33:
			return funnel.words(funnel.capacity + 1)
		}
		return funnel.words(1)
	}
	first, second := group[0], group[1]
	if rand.IntN(2) == 0 {
		first, second = second, first
	}
	call := func(command string) []string {
		call := append([]string{command}, words(first)...)
		if rand.IntN(3) == 0 {
			call = append(call, words(second)...)
		}
		return call
	}
	switch dice := rand.IntN(100); {
	case dice < 20:
		return operation{group, []string{"get", first.key}}
	case dice < 35:
		return operation{group, append([]string{"cl.throttle"}, words(first)...)}
	case dice < 50:
		return operation{group, call("cl.reserve")}
	case dice < 65:
		maxWait := []string{"0.05", "0.0001", fmt.Sprint(3 * servertest.StillPeriod)}[rand.IntN(3)]
		return operation{group, append(append([]string{"cl.reserve"}, words(first)...), maxWait)}
	case dice < 75:
		return operation{group, call("cl.peek")}
	case dice < 80: // less than is given back, so that funnels do not stay overfull
		return operation{group, call("cl.charge")}
	}
	return operation{group, call("cl.refund")}
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
	return setClock(instant)
}

func setClock(instant time.Time) operation {
	return operation{words: []string{"funnel.debug", "clock", fmt.Sprint(instant.UnixNano())}}
}

// startOfTime sets the clock of a server that has just begun to serve clients.
func startOfTime() operation { return setClock(servertest.Epoch) }

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
