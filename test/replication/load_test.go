package replication_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A load is a number of workers that call CL.THROTTLE and CL.TAKE on random funnels of a
// ledger, and CL.RESERVE on two or three at once, until they are told to stop: mostly for one
// token, sometimes for more, and sometimes a peek.
type load struct {
	ledger *ledger
	client redis.UniversalClient
	failed int64 // calls, before

	stopping atomic.Bool
	workers  sync.WaitGroup
}

const loadWorkers, loadBatch = 6, 32

// startLoad starts a load, which ends with the test if not before. The client must send
// every call at most once: a retry could take tokens twice.
func startLoad(t testing.TB, ledger *ledger, client redis.UniversalClient) *load {
	t.Helper()
	load := &load{ledger: ledger, client: client, failed: ledger.count().failed()}
	for range loadWorkers {
		load.workers.Go(func() {
			for !load.stopping.Load() {
				if !load.callBatch() {
					time.Sleep(time.Millisecond) // a dead server fails calls at once
				}
			}
		})
	}
	t.Cleanup(load.end)
	return load
}

// callBatch sends a batch and enters what became of it. A call of several funnels is sent by
// itself: when it meets a slot in two halves, go-redis would repeat the whole batch.
func (l *load) callBatch() (answered bool) {
	ctx := context.Background()
	pipeline := l.client.Pipeline()
	var calls []call
	var replies []*redis.Cmd
	for i := range loadBatch {
		calls = append(calls, l.ask(1))
		command := []string{"cl.throttle", "cl.take"}[i%2]
		replies = append(replies, pipeline.Do(ctx, calls[len(calls)-1].words(command)...))
	}
	pipeline.Exec(ctx) // each call has an error of its own
	for range 2 {
		calls = append(calls, l.ask(2+rand.IntN(groupSize-1)))
		replies = append(replies, l.client.Do(ctx, calls[len(calls)-1].words("cl.reserve")...))
	}
	answered = true
	for i, call := range calls {
		// When a connection breaks, go-redis gives the error to the whole batch, also to
		// calls that were answered before.
		rows := call.rowsOf(replies[i].Val())
		if len(rows) != len(call) {
			l.ledger.enterFailure(call, replies[i].Err())
			answered = false
			continue
		}
		l.ledger.enterReply(call, rows)
	}
	return answered
}

// ask enters a call of so many funnels of a group.
func (l *load) ask(number int) call {
	group, funnels := rand.IntN(len(l.ledger.accounts)/groupSize), rand.Perm(groupSize)[:number]
	for i := range funnels {
		funnels[i] += group * groupSize
	}
	quantities := []int64{0, 1, 1, 1, 1, 1, 2, 3}
	return l.ledger.ask(funnels, quantities[rand.IntN(len(quantities))])
}

// words are the command as it is sent.
func (c call) words(command string) []any {
	words := []any{command}
	for _, part := range c {
		words = append(words, part.key, part.capacity, 1, part.interval.Seconds(), part.tokens)
	}
	return words
}

// rowsOf reads the reply of CL.THROTTLE, which is one row of five, CL.RESERVE or CL.TAKE. If
// one row is limited, nothing was taken from any funnel, except by CL.TAKE.
func (c call) rowsOf(reply any) (rows []row) {
	values, _ := reply.([]any)
	all, width := []any{values}, 5
	if len(values) == 3 || len(values) == 4 {
		all, width = values[2].([]any), 6
	}
	limited := len(values) > 0 && values[0] == int64(1)
	for i, values := range all {
		fields, _ := values.([]any)
		if len(fields) != width {
			return nil
		}
		limit, _ := fields[1].(int64)
		remaining, _ := fields[2].(int64)
		rows = append(rows, row{fields[0] == int64(1), limit, remaining, c[i].tokens})
		if limited {
			rows[i].taken = 0
		}
	}
	if len(values) == 4 {
		rows[0].taken, _ = values[3].(int64)
	}
	return rows
}

// goOn waits until so many calls more are answered.
func (l *load) goOn(t testing.TB, calls int64) {
	t.Helper()
	enough := l.ledger.count().answered() + calls
	servertest.Eventually(t, "the load goes on", func() bool { return l.ledger.count().answered() >= enough })
}

// stop ends a load during which nothing has failed: every call was answered.
func (l *load) stop(t testing.TB) {
	t.Helper()
	l.end()
	require.Equal(t, l.failed, l.ledger.count().failed(), "calls without a reply, though nothing has failed")
}

// end ends a load whose server was killed.
func (l *load) end() {
	l.stopping.Store(true)
	l.workers.Wait()
}
