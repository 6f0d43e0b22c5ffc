// Concurrent calls of many clients are linearizable, even through kill -9: each call is executed at
// one instant. No token and no slot is granted twice, and a call of two keys sees both keys at that
// instant.

package model_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// TestCallsAreLinearizable: many clients call at once. They also set the clock, so the contract
// knows every answer to the nanosecond. Porcupine looks for an order of the calls in which the
// contract gives the same answers, and in which each call lies between its start and its end. If
// there is none, calls are not atomic. Then the test writes a page that shows how far the calls can
// be explained.
//
// The server is killed, and reads its log. A call without an answer may be executed at any time
// after its start: the end of time stands for never.
func TestCallsAreLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "no"))
	began := time.Now()
	var mutex sync.Mutex
	var history []porcupine.Operation
	record := func(number int, client *redis.Client, operation operation) {
		called := time.Since(began) // by the monotonic clock
		answer := client.Do(context.Background(), servertest.ToAny(operation.words)...)
		returned := time.Since(began)
		var failure net.Error
		err := answer.Err()
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return
		case errors.Is(err, io.EOF) || errors.As(err, &failure):
			returned = math.MaxInt64
		}
		mutex.Lock()
		defer mutex.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: number, Input: operation, Output: resultOf(operation, answer),
			Call: int64(called), Return: int64(returned),
		})
	}
	client := server.Client(t)
	record(0, client, setClock(servertest.Epoch))
	var running sync.WaitGroup
	var started sync.RWMutex // held while the server starts and its clock is not set
	calls := servertest.QuickOrLong(500, 4000)
	kills := 2
	for number := range 8 {
		client := server.Client(t)
		running.Go(func() {
			for range calls {
				started.RLock()
				record(number, client, anyOperation())
				started.RUnlock()
			}
		})
	}
	for kill := range kills {
		servertest.Eventually(t, "calls go on", func() bool {
			mutex.Lock()
			defer mutex.Unlock()
			return len(history) > 8*calls*(kill+1)/(kills+2)
		})
		server.Kill()
		started.Lock()
		server.Restart(t)
		record(0, client, setClock(servertest.Epoch))
		started.Unlock()
	}
	running.Wait()
	requireLinearizable(t, history)
}

func requireLinearizable(t *testing.T, history []porcupine.Operation) {
	met := map[string]int{} // how often each command, with its number of words, was allowed (0) and limited (1)
	for _, recorded := range history {
		words := recorded.Input.(operation).words
		name := fmt.Sprintf("%s, %d words", words[0], len(words))
		if len(words) > 10 {
			name = "two keys"
		} else if len(words) == 6 && (words[3] == "SLOTS" || words[3] == "UNTIL") {
			name = words[0] + " " + words[3]
		}
		met[fmt.Sprintf("%s: %.2s", name, recorded.Output)]++
	}
	names := []string{"two keys", "cl.reserve, 7 words", "cl.refund, 7 words",
		"cl.reserve SLOTS", "cl.charge SLOTS", "cl.peek SLOTS",
		"cl.reserve UNTIL", "cl.take UNTIL"}
	require.Positive(t, met["cl.reserve UNTIL: EN"]+met["cl.take UNTIL: EN"], "ENDED: %v", met)
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

var model = porcupine.Model{
	Partition: byGroup,
	Init:      func() any { return world{} },
	Step: func(state, input, output any) (bool, any) {
		after, expected := input.(operation).in(state.(world))
		return output == expected || output == noAnswer, after
	},
}

// byGroup splits a history into one history for each group of keys. Settings of the clock belong to
// all of them.
func byGroup(operations []porcupine.Operation) (parts [][]porcupine.Operation) {
	groups := map[string][]porcupine.Operation{}
	var clocks []porcupine.Operation
	for _, o := range operations {
		operation := o.Input.(operation)
		if operation.setsClock() {
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

// An operation is a command of a client: the input of porcupine's model. It concerns the keys of
// one group, or sets the clock.
type operation struct {
	group []funnel
	words []string
}

// A funnel is a key with its rate. If the count is 0, the key holds slots or a quota, and the
// capacity is the limit.
type funnel struct {
	key                     string
	capacity, count, period int64
}

func (f funnel) isSlots() bool { return f.key == "slots" }
func (f funnel) isQuota() bool { return f.key == "quota" }

// words returns a row for the key. With a quantity of 0, a slot can only be renewed. Callers
// disagree about the end of a quota's period.
func (f funnel) words(quantity int64) []string {
	if f.isQuota() {
		end := servertest.Epoch.Add([]time.Duration{1, 2, 3, 4, 36_001, 1e6}[rand.IntN(6)] * 100 * time.Millisecond)
		until := fmt.Sprintf("%d.%03d", end.Unix(), end.UnixMilli()%1000)
		return []string{f.key, fmt.Sprint(f.capacity), "UNTIL", until, fmt.Sprint(quantity)}
	}
	if f.isSlots() {
		limit := fmt.Sprint(min(quantity, 1) * f.capacity)
		ttl := []string{"0.05", "0.2", "10000"}[rand.IntN(3)]
		return []string{f.key, limit, "SLOTS", ttl, fmt.Sprint("holder-", rand.IntN(5))}
	}
	return []string{f.key, fmt.Sprint(f.capacity), fmt.Sprint(f.count), fmt.Sprint(f.period), fmt.Sprint(quantity)}
}

func (o operation) setsClock() bool { return o.words[0] == "funnel.debug" }
func (o operation) reads() bool     { return o.words[0] == "get" || o.words[0] == "zrange" }

// A result is the reply to an operation: the output of porcupine's model.
type result string // as fmt prints it; "" for the clock

const noAnswer result = "no answer"

func resultOf(operation operation, answer *redis.Cmd) result {
	err := answer.Err()
	if err != nil && err != redis.Nil {
		_, isReply := err.(redis.Error)
		if !isReply {
			return noAnswer
		}
		return result(err.Error()) // ENDED is the only error of these calls
	}
	if operation.setsClock() {
		return ""
	}
	reply, _ := answer.Slice()
	if len(reply) > 2 {
		rows, ofRows := reply[2].([]any)
		if ofRows && rows[0].([]any)[5] != "0" {
			receipts.Store(operation.words[1], rows[0].([]any)[5])
		}
	}
	return result(fmt.Sprint(answer.Val()))
}

// receipts has the latest receipt that a client was given, by key.
var receipts sync.Map

// receiptOf returns the last word of a refund: the latest receipt of the key, or another instant.
func receiptOf(funnel funnel) string {
	receipt, given := receipts.Load(funnel.key)
	if given && rand.IntN(3) > 0 {
		return receipt.(string)
	}
	return fmt.Sprint(servertest.Epoch.UnixNano() + rand.Int64N(int64(time.Second)))
}

// A world is the state that determines the answers of one group: the clock, and the values of its
// keys.
type world struct {
	now    int64
	values [2]string // for a quota with the expiry, such as used:5@4102444800100
}

// in executes an operation by the contract, and returns the world after it and the result.
func (o operation) in(before world) (after world, expected result) {
	get := func(key string) contract.Value {
		index := o.indexOf(key)
		value := before.values[index]
		switch {
		case o.group[index].isSlots():
			return contract.Value{Type: "zset", Scores: scoresOf(value)}
		case value != "":
			text, expiry, _ := strings.Cut(value, "@")
			return contract.Value{Type: "string", Text: text, Expiry: mustParse(cmp.Or(expiry, "0"))}
		}
		return contract.Value{}
	}
	after = before
	switch {
	case o.setsClock():
		after.now = mustParse(o.words[2])
		return after, ""
	case o.words[0] == "zrange":
		var members []any
		for word := range strings.FieldsSeq(before.values[o.indexOf(o.words[1])]) {
			_, member, _ := strings.Cut(word, "=")
			members = append(members, member)
		}
		return after, result(fmt.Sprint(members))
	case o.reads():
		value := get(o.words[1])
		if value.Type != "" {
			return after, result(value.Text)
		}
		return after, result(fmt.Sprint(nil))
	}
	outcome := contract.Run(contract.Default, o.words, before.now, get)
	switch {
	case outcome.Name == string(contract.ErrEnded):
		return after, result(outcome.Err)
	case outcome.Err != "":
		panic(outcome.Err)
	}
	for _, write := range outcome.Writes {
		index := o.indexOf(write.Key)
		text := write.Value.Text
		switch {
		case write.Value.Type == "zset":
			text = textOf(write.Value.Scores)
		case o.group[index].isQuota() && text != "":
			text += fmt.Sprint("@", write.Value.Expiry)
		}
		after.values[index] = text
	}
	return after, result(fmt.Sprint(outcome.Reply))
}

// textOf returns a set in the form of a world: words such as 4102444800000=holder, in the order of
// the ends. All ends have the same number of digits.
func textOf(scores map[string]float64) string {
	var words []string
	for member, score := range scores {
		words = append(words, fmt.Sprintf("%.0f=%s", score, member))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func scoresOf(text string) map[string]float64 {
	scores := map[string]float64{}
	for word := range strings.FieldsSeq(text) {
		end, member, _ := strings.Cut(word, "=")
		scores[member] = float64(mustParse(end))
	}
	return scores
}

func (o operation) indexOf(key string) int {
	return slices.IndexFunc(o.group, func(f funnel) bool { return f.key == key })
}

// groups has the keys that are called together. Within the clock's range, some funnels leak
// nothing, some a few tokens, and some nearly all tokens. Some funnels are large and some are
// small.
var groups = [][]funnel{
	{
		{key: "still and large", capacity: 1000, count: 1, period: 1000},
		{key: "leaks 100 per second", capacity: 20, count: 100, period: 1},
	}, {
		{key: "slots", capacity: 2},
		{key: "leaks 50 per second", capacity: 10, count: 50, period: 1},
	}, {
		{key: "quota", capacity: 6},
		{key: "leaks 70 per second", capacity: 10, count: 70, period: 1},
	}, {
		{key: "still and small", capacity: 100, count: 1, period: servertest.StillPeriod},
		{key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1},
	},
}

// anyOperation returns a call for one key of a group or for both keys. Or it sets the clock forward
// or backward, sometimes by an hour.
func anyOperation() operation {
	if rand.IntN(100) < 4 {
		hour := time.Duration(rand.IntN(10)/9) * time.Hour
		return setClock(servertest.Epoch.Add(hour + time.Duration(rand.Int64N(int64(400*time.Millisecond)))))
	}
	group := groups[rand.IntN(len(groups))]
	words := func(funnel funnel) []string {
		dice := rand.IntN(100)
		switch {
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
		if first.isSlots() {
			return operation{group, []string{"zrange", first.key, "0", "-1"}}
		}
		return operation{group, []string{"get", first.key}}
	}
	command := contract.Commands[rand.IntN(len(contract.Commands))]
	if first.isSlots() && command.Rows == 1 || first.isQuota() && command.Seconds {
		first, second = second, first
	}
	// Charge less than is given back, so that funnels do not stay overfull.
	if command.Operation == "charge" && rand.IntN(2) == 0 {
		command, _ = contract.CommandOf("cl.refund")
	}
	call := append([]string{command.Name}, words(first)...)
	if command.Operation == "take" && rand.IntN(4) == 0 { // to take all tokens that fit
		call[5] = fmt.Sprint(first.capacity + 1)
	}
	dice := rand.IntN(4)
	switch {
	case dice == 0 && command.Rows > 1:
		call = append(call, words(second)...)
	case first.isSlots() || first.isQuota():
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
