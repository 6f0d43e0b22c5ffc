package model_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	replica := servertest.StartReplica(t, primary, servertest.Options{Module: servertest.DebugModule(t)})
	return &pair{primary: primary, replica: replica, primaryClient: client, replicaClient: replica.Client(t)}
}

// TestCallsAreLinearizableAcrossFailovers: primaries are killed under load and replicas
// promoted, and the calls that were confirmed by the replica, together with some of
// those that went without an answer, still are the calls on one funnel.
func TestCallsAreLinearizableAcrossFailovers(t *testing.T) {
	history := newHistory()
	var current atomic.Pointer[pair]
	primary := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	first := newPair(t, primary, primary.Client(t))
	history.record(0, startOfTime(), onServer(first.primaryClient, 0))
	current.Store(first)
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
		require.NoError(t, here.replicaClient.Do(t.Context(), "replicaof", "no", "one").Err())
		history.record(0, startOfTime(), onServer(here.replicaClient, 0))
		current.Store(newPair(t, here.replica, here.replicaClient))
	}
	more()
	done.Store(true)
	running.Wait()

	require.Positive(t, history.outcomes()["unknown"], "no failover has hit a call")
	history.requireLinearizable(t)
}
