package model_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A pair is a primary and its replica, of which one is killed.
type pair struct {
	primary, replica             *servertest.Server
	primaryClient, replicaClient *redis.Client
	killed                       atomic.Bool // the primary
}

// newPair puts a replica beside a primary.
func newPair(t testing.TB, primary *servertest.Server, client *redis.Client) *pair {
	t.Helper()
	replica := servertest.StartReplica(t, primary, servertest.Options{Module: servertest.DebugModule(t), ModuleArguments: servertest.AllCommands})
	return &pair{primary: primary, replica: replica, primaryClient: client, replicaClient: replica.Client(t)}
}

// startPair starts a primary with a replica.
func startPair(t testing.TB, history *history) *pair {
	t.Helper()
	primary := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t), ModuleArguments: servertest.AllCommands})
	pair := newPair(t, primary, primary.Client(t))
	history.record(0, startOfTime(), onServer(pair.primaryClient, 0))
	return pair
}

// promote makes the replica a primary, whether the old one still lives or not.
func (p *pair) promote(t testing.TB, history *history) {
	t.Helper()
	require.NoError(t, p.replicaClient.Do(context.Background(), "replicaof", "no", "one").Err())
	history.record(0, startOfTime(), onServer(p.replicaClient, 0))
}

// TestCallsAreLinearizableAcrossFailovers: primaries are killed under load and replicas
// promoted, and the calls that were confirmed by the replica, together with some of
// those that went without an answer, still are the calls on one funnel.
func TestCallsAreLinearizableAcrossFailovers(t *testing.T) {
	history := newHistory()
	var current atomic.Pointer[pair]
	current.Store(startPair(t, history))
	var done atomic.Bool
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			for !done.Load() {
				here := current.Load()
				history.record(client, onFunnelsAndClock(), onServer(here.primaryClient, 1))
				// A client whose server has ended waits for the next one.
				for here.killed.Load() && current.Load() == here && !done.Load() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	defer running.Wait()
	defer done.Store(true)

	more := func() {
		enough := history.size() + 400
		servertest.Eventually(t, "the clients go on", func() bool { return history.size() >= enough })
	}
	for range servertest.QuickOrLong(3, 30) {
		more()
		here := current.Load()
		here.primary.Kill()
		here.killed.Store(true)
		history.settle()
		here.promote(t, history)
		current.Store(newPair(t, here.replica, here.replicaClient))
	}
	more()
	done.Store(true)
	running.Wait()

	require.Positive(t, history.outcomes()["unknown"], "no failover has hit a call")
	history.requireLinearizable(t)
}

// TestLostWritesAreNotLinearizable: the check would see it if a failover lost a call that
// has been acknowledged. Here it does, as the link was cut before.
func TestLostWritesAreNotLinearizable(t *testing.T) {
	for lost, want := range map[int]porcupine.CheckResult{0: porcupine.Ok, 3: porcupine.Illegal} {
		history := newHistory()
		pair := startPair(t, history)
		one := operation{groups[0], append([]string{"cl.reserve"}, groups[0][0].words(1)...)}
		work := func(client *redis.Client, replicas int) {
			history.work(10, func() operation { return one }, func() func(operation) result {
				return onServer(client, replicas)
			})
		}
		work(pair.primaryClient, 1)
		pair.promote(t, history)
		for range lost {
			history.record(0, one, onServer(pair.primaryClient, 0))
		}
		pair.primary.Kill()
		work(pair.replicaClient, 0)
		require.Zero(t, history.outcomes()["unknown"])
		require.Equal(t, want, history.check(), "%d calls lost", lost)
	}
}
