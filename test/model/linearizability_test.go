// Calls of clients at once are as if each were executed at one instant: no token is granted twice,
// and a call of two funnels sees both at that instant.

package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// TestCallsAreLinearizable: clients call at once, and set the clock, so the contract knows every
// answer to the nanosecond. Porcupine finds out whether there is an order of the calls, each
// somewhere between its start and its end, in which the contract gives the same answers. If there
// is none, calls are not atomic, and a page is left behind that shows how far they can be explained.
func TestCallsAreLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	began := time.Now()
	var mutex sync.Mutex
	var history []porcupine.Operation
	record := func(number int, client *redis.Client, operation operation) {
		called := time.Since(began) // by the monotonic clock
		answer := client.Do(context.Background(), servertest.ToAny(operation.words)...)
		returned := time.Since(began)
		mutex.Lock()
		defer mutex.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: number, Input: operation, Call: int64(called), Output: resultOf(operation, answer), Return: int64(returned),
		})
	}
	record(0, server.Client(t), setClock(servertest.Epoch))
	var running sync.WaitGroup
	for number := range 8 {
		client := server.Client(t)
		running.Go(func() {
			for range servertest.QuickOrLong(400, 4000) {
				record(number, client, anyOperation())
			}
		})
	}
	running.Wait()
	requireLinearizable(t, history)
}

func requireLinearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	met := map[string]int{} // how often each command, of so many words, was allowed (0) and limited
	for _, recorded := range history {
		words := recorded.Input.(operation).words
		name := fmt.Sprintf("%s, %d words", words[0], len(words))
		if len(words) > 10 {
			name = "two funnels"
		}
		met[fmt.Sprintf("%s: %.2s", name, recorded.Output)]++
	}
	names := []string{"two funnels", "cl.reserve, 7 words", "cl.refund, 7 words"}
	for _, command := range contract.Commands {
		names = append(names, command.Name+", 6 words")
	}
	for _, name := range names {
		require.Positive(t, min(met[name+": [0"], met[name+": [1"]), "%s: %v", name, met)
	}
	verdict, information := porcupine.CheckOperationsVerbose(model, history, servertest.Patience)
	if verdict != porcupine.Ok {
		page, err := os.CreateTemp("", "not-linearizable-*.html")
		require.NoError(t, err)
		defer page.Close()
		require.NoError(t, porcupine.Visualize(model, information, page))
		t.Logf("see %s", page.Name())
	}
	require.Equal(t, porcupine.Ok, verdict)
	t.Logf("%d operations, calls: %v: linearizable", len(history), met)
}

// model is the contract.
var model = porcupine.Model{
	Partition: byGroup,
	Init:      func() any { return world{} },
	Step: func(state, input, output any) (bool, any) {
		after, expected := input.(operation).in(state.(world))
		return output == expected, after
	},
}

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
type result string // in Go's form; of the clock nothing

func resultOf(operation operation, answer *redis.Cmd) result {
	if err := servertest.IgnoreNil(answer.Err()); err != nil {
		return result(err.Error()) // which the contract never answers
	}
	if operation.setsClock() {
		return ""
	}
	if reply, _ := answer.Slice(); len(reply) > 2 {
		if rows, ofRows := reply[2].([]any); ofRows && rows[0].([]any)[5] != "0" {
			receipts.Store(operation.words[1], rows[0].([]any)[5])
		}
	}
	return result(fmt.Sprint(answer.Val()))
}

// receipts are the latest of each key that a client was given.
var receipts sync.Map

// receiptOf is the last word of a refund: the latest receipt, or another instant.
func receiptOf(funnel funnel) string {
	if receipt, given := receipts.Load(funnel.key); given && rand.IntN(3) > 0 {
		return receipt.(string)
	}
	return fmt.Sprint(servertest.Epoch.UnixNano() + rand.Int64N(int64(time.Second)))
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
		after.now = mustParse(o.words[2])
		return after, ""
	case o.reads():
		if value := get(o.words[1]); value.Type != "" {
			return after, result(value.Text)
		}
		return after, result(fmt.Sprint(nil))
	}
	outcome := contract.Call(contract.Default, o.words, before.now, get)
	if outcome.Err != "" {
		panic(outcome.Err)
	}
	for _, write := range outcome.Writes {
		after.values[o.indexOf(write.Key)] = write.Value
	}
	return after, result(fmt.Sprint(outcome.Reply))
}

func (o operation) indexOf(key string) int {
	return slices.IndexFunc(o.group, func(f funnel) bool { return f.key == key })
}

// groups are of funnels that are called together. They leak nothing while the clock is set,
// or some, or nearly at once; and are large or small.
var groups = [][]funnel{
	{{key: "still and large", capacity: 1000, count: 1, period: 1000}, {key: "leaks 100 per second", capacity: 20, count: 100, period: 1}},
	{{key: "still and small", capacity: 100, count: 1, period: servertest.StillPeriod}, {key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1}},
}

// anyOperation is on one funnel of a group or on both, or sets the clock, forward and backward, at
// times by an hour.
func anyOperation() operation {
	if rand.IntN(100) < 4 {
		hour := time.Duration(rand.IntN(10)/9) * time.Hour
		return setClock(servertest.Epoch.Add(hour + time.Duration(rand.Int64N(int64(400*time.Millisecond)))))
	}
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
	if rand.IntN(5) == 0 {
		return operation{group, []string{"get", first.key}}
	}
	command := contract.Commands[rand.IntN(len(contract.Commands))]
	if command.Operation == "charge" && rand.IntN(2) == 0 { // less than is given back: funnels do not stay overfull
		command, _ = contract.CommandOf("cl.refund")
	}
	call := append([]string{command.Name}, words(first)...)
	if command.Operation == "take" && rand.IntN(4) == 0 { // whatever is there
		call[5] = fmt.Sprint(first.capacity + 1)
	}
	switch dice := rand.IntN(4); {
	case dice == 0 && command.Funnels > 1:
		call = append(call, words(second)...)
	case dice < 3 && command.LastWord == "tat":
		call = append(call, receiptOf(first))
	case dice < 3 && command.LastWord == "max_wait":
		call = append(call, []string{"0.05", "0.0001", fmt.Sprint(3 * servertest.StillPeriod)}[rand.IntN(3)])
	}
	return operation{group, call}
}

func setClock(instant time.Time) operation {
	return operation{words: []string{"funnel.debug", "clock", fmt.Sprint(instant.UnixNano())}}
}
