package model_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
)

// What concurrent clients did and saw, and in which spans of time: the record that
// linearizability_test.go checks.

// An action is what an operation does.
type action int

const (
	pour        action = iota // CL.THROTTLE
	pourAndRead               // CL.THROTTLE and GET in one transaction: the answer, and the TAT that it left
	read                      // GET
	setClock                  // FUNNEL.DEBUG CLOCK
)

// An operation is what a client asked for: the input of porcupine's models.
type operation struct {
	action   action
	funnel   funnel
	quantity int64
	instant  int64 // to set the clock to

	// The clock of the machine before and after, in nanoseconds.
	earliest, latest int64
}

// A funnel is a key with its rate.
type funnel struct {
	key                     string
	capacity, count, period int64
}

func (f funnel) rate() gcra.Rate {
	rate, err := gcra.NewRate(f.capacity, f.count, f.period*int64(time.Second))
	if err != nil {
		panic(err)
	}
	return rate
}

// A result is what a client was answered: the output of porcupine's models.
type result struct {
	// unknown says that there was no answer: the server may have done what it was
	// asked, or not.
	unknown bool

	reply servertest.Reply
	tat   int64 // what was read, gcra.Empty for no key
}

func (o operation) String() string {
	switch o.action {
	case setClock:
		return fmt.Sprintf("clock %d", o.instant)
	case read:
		return fmt.Sprintf("get %s", o.funnel.key)
	case pourAndRead:
		return fmt.Sprintf("throttle %v %d, get", o.funnel, o.quantity)
	}
	return fmt.Sprintf("throttle %v %d", o.funnel, o.quantity)
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
	called := time.Now()
	result := do(operation)
	returned := time.Now()
	operation.earliest, operation.latest = called.UnixNano(), returned.UnixNano()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client,
		Input:    operation,
		Call:     int64(called.Sub(h.began)), // by the monotonic clock
		Output:   result,
		Return:   int64(returned.Sub(h.began)),
	})
}

// settle is called when the server has ended. Until then it may have executed the
// operations that went without an answer.
func (h *history) settle() {
	now := time.Now()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := range h.operations[h.settled:] {
		recorded := &h.operations[h.settled+i]
		if recorded.Output.(result).unknown {
			operation := recorded.Input.(operation)
			operation.latest = now.UnixNano()
			recorded.Input, recorded.Return = operation, int64(now.Sub(h.began))
		}
	}
	h.settled = len(h.operations)
}

// answers counts the operations by how they were answered.
func (h *history) answers() (allowed, limited, reads, clocks, unknown int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, recorded := range h.operations {
		operation, result := recorded.Input.(operation), recorded.Output.(result)
		switch {
		case result.unknown:
			unknown++
		case operation.action == read:
			reads++
		case operation.action == setClock:
			clocks++
		case result.reply[0] == 0:
			allowed++
		default:
			limited++
		}
	}
	return allowed, limited, reads, clocks, unknown
}

// size is the number of operations.
func (h *history) size() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.operations)
}

func (h *history) String() string {
	allowed, limited, reads, clocks, unknown := h.answers()
	return fmt.Sprintf("%d operations (%d allowed, %d limited, %d reads, %d changes of the clock, %d without an answer)",
		h.size(), allowed, limited, reads, clocks, unknown)
}

// requireAllAnswered requires that no operation failed.
func (h *history) requireAllAnswered(t testing.TB) {
	t.Helper()
	_, _, _, _, unknown := h.answers()
	require.Zero(t, unknown)
}

// requireSteadyClock makes sure that the machine's clock was not set meanwhile:
// the bounds of the server's clock would be worth nothing.
func (h *history) requireSteadyClock(t testing.TB) {
	t.Helper()
	now := time.Now()
	drift := now.Round(0).Sub(h.began.Round(0)) - now.Sub(h.began)
	require.Less(t, drift.Abs(), 50*time.Millisecond, "the clock of this machine was set during the test")
}

// check searches for an order of the calls that the model allows.
func (h *history) check(model porcupine.Model) porcupine.CheckResult {
	const longest = 60 * time.Second
	model.Partition = byFunnel
	return porcupine.CheckOperationsTimeout(model, h.operations, longest)
}

// requireLinearizable requires that there is such an order. If not, it leaves a
// page behind that shows how far the calls can be explained.
func (h *history) requireLinearizable(t testing.TB, model porcupine.Model) {
	t.Helper()
	began := time.Now()
	verdict := h.check(model)
	if verdict != porcupine.Ok {
		model.Partition = byFunnel
		_, information := porcupine.CheckOperationsVerbose(model, h.operations, 10*time.Second)
		page, err := os.CreateTemp("", "not-linearizable-*.html")
		require.NoError(t, err)
		defer page.Close()
		require.NoError(t, porcupine.Visualize(model, information, page))
		t.Logf("see %s", page.Name())
	}
	require.Equal(t, porcupine.Ok, verdict)
	t.Logf("%v: linearizable, found in %v", h, time.Since(began).Round(time.Millisecond))
}

// byFunnel cuts a history into one for each funnel. The clock belongs to all.
func byFunnel(operations []porcupine.Operation) [][]porcupine.Operation {
	var clocks []porcupine.Operation
	funnels := map[string][]porcupine.Operation{}
	for _, o := range operations {
		if operation := o.Input.(operation); operation.action == setClock {
			clocks = append(clocks, o)
		} else {
			funnels[operation.funnel.key] = append(funnels[operation.funnel.key], o)
		}
	}
	var parts [][]porcupine.Operation
	for _, part := range funnels {
		parts = append(parts, append(part, clocks...))
	}
	return parts
}
