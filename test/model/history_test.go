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
			switch length := len(operation.words); {
			case length > 10:
				counts["two funnels"+outcome]++
			case length == 7:
				counts[operation.words[0]+" with a last word"]++
			case operation.words[0] == "cl.take" && outcome == " limited" && !strings.HasSuffix(result.reply, " 0]"):
				counts["cl.take allowed in part"]++
			}
			if operation.words[0] == "cl.reserve" && outcome == " allowed" && !strings.HasPrefix(result.reply, "[0 0 ") {
				counts["cl.reserve allowed later"]++
			}
		}
	}
	return counts
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
	want := []string{"two funnels allowed", "two funnels limited", "cl.reserve allowed later", "cl.take allowed in part"}
	for _, command := range contract.Commands {
		want = append(want, command.Name+" allowed", command.Name+" limited")
		if command.LastWord != "" {
			want = append(want, command.Name+" with a last word")
		}
	}
	for _, outcome := range want {
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
	t.Logf("%d operations, calls: %v: linearizable", h.size(), outcomes)
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
