package replication_test

import (
	"cmp"
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

// A load is a number of workers that call CL.THROTTLE on random funnels of a ledger, in
// batches, until they are told to stop: mostly for one token, sometimes for more, and
// sometimes a peek.
type load struct {
	ledger *ledger
	client redis.UniversalClient
	failed int64 // calls, before

	stopping atomic.Bool
	workers  sync.WaitGroup
}

const loadWorkers, loadBatch = 6, 32

// startLoad starts a load, which ends with the test if not before. The client must send
// every call once at the most: a retry could fill a funnel twice.
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

// callBatch sends a batch and enters what became of it.
func (l *load) callBatch() (answered bool) {
	ctx := context.Background()
	pipeline := l.client.Pipeline()
	var calls []call
	var replies []*redis.Cmd
	for range loadBatch {
		quantities := []int64{0, 1, 1, 1, 1, 1, 2, 3}
		call := l.ledger.ask(rand.IntN(len(l.ledger.accounts)), quantities[rand.IntN(len(quantities))])
		calls = append(calls, call)
		replies = append(replies, pipeline.Do(ctx, "cl.throttle", call.key, call.capacity, 1, call.interval.Seconds(), call.tokens))
	}
	pipeline.Exec(ctx) // each call has an error of its own
	answered = true
	for i, call := range calls {
		// When a connection breaks, go-redis gives the error to the whole batch, also to
		// calls that were answered before.
		values, replied := replies[i].Val().([]any)
		numbers, err := redis.NewCmdResult(values, nil).Int64Slice()
		if !replied || err != nil || len(numbers) != len(servertest.Reply{}) {
			l.ledger.enterFailure(call, cmp.Or(err, replies[i].Err()))
			answered = false
			continue
		}
		l.ledger.enterReply(call, servertest.Reply(numbers))
	}
	return answered
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
