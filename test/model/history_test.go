package model_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// What concurrent clients did and saw, and when: the record of which porcupine finds out
// whether there is an order of the calls, each somewhere between its start and its end,
// in which the contract gives the same answers. If there is none, calls are not atomic.

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

// A history is the record of what clients did and saw.
type history struct {
	began      time.Time
	mutex      sync.Mutex
	operations []porcupine.Operation
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

// requireNoFailure requires that each operation was answered.
func (h *history) requireNoFailure(t testing.TB) {
	t.Helper()
	for _, recorded := range h.operations {
		require.False(t, recorded.Output.(result).failed, "%v", recorded.Input)
	}
}

// outcomes are what a call, and its answer, is an example of.
func (o operation) outcomes(reply string) []string {
	if o.setsClock() || o.reads() {
		return nil
	}
	command, outcome := o.words[0], " limited"
	if strings.HasPrefix(reply, "[0 ") {
		outcome = " allowed"
	}
	names := []string{command + outcome}
	switch length := len(o.words); {
	case length > 10:
		names = append(names, "two funnels"+outcome)
	case length == 7:
		names = append(names, command+" with a last word")
	case command == "cl.take" && outcome == " limited" && !strings.HasSuffix(reply, " 0]"):
		names = append(names, "cl.take allowed in part")
	}
	if command == "cl.reserve" && outcome == " allowed" && !strings.HasPrefix(reply, "[0 0 ") {
		names = append(names, "cl.reserve allowed later")
	}
	return names
}

// requireLinearizable requires that there is an order of the operations that the contract
// allows. If not, it leaves a page behind that shows how far they can be explained.
func (h *history) requireLinearizable(t testing.TB) {
	t.Helper()
	met := map[string]int{}
	for _, recorded := range h.operations {
		for _, outcome := range recorded.Input.(operation).outcomes(recorded.Output.(result).reply) {
			met[outcome]++
		}
	}
	want := []string{"two funnels allowed", "two funnels limited", "cl.reserve allowed later", "cl.take allowed in part"}
	for _, command := range contract.Commands {
		want = append(want, command.Name+" allowed", command.Name+" limited")
		if command.LastWord != "" {
			want = append(want, command.Name+" with a last word")
		}
	}
	for _, outcome := range want {
		require.NotZero(t, met[outcome], outcome)
	}
	verdict, information := porcupine.CheckOperationsVerbose(model, h.operations, servertest.Patience)
	if verdict != porcupine.Ok {
		page, err := os.CreateTemp("", "not-linearizable-*.html")
		require.NoError(t, err)
		defer page.Close()
		require.NoError(t, porcupine.Visualize(model, information, page))
		t.Logf("see %s", page.Name())
	}
	require.Equal(t, porcupine.Ok, verdict)
	t.Logf("%d operations, calls: %v: linearizable", len(h.operations), met)
}

const clients = 8

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
