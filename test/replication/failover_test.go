package replication_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// failOver kills a primary under load. The sentinels or the cluster promote a replica, and
// the load goes on with a client that finds it and sends each call at most once. The
// successor has all that the replicas had confirmed and all that it answers itself, and
// nothing that was not asked for.
func failOver(t *testing.T, ledger *ledger, client redis.UniversalClient, primary *servertest.Server, replicas ...*servertest.Server) {
	t.Helper()
	ledger.survives = false
	load := startLoad(t, ledger, client)
	for range servertest.QuickOrLong(5, 50) {
		load.goOn(t, 1000)
		answered := ledger.answered()
		for _, replica := range replicas {
			servertest.AwaitReplicas(t, primary.Client(t), replica.Client(t))
		}
		ledger.keep(answered)
	}
	primary.Kill()
	load.end()

	ledger.survives = true
	load = startLoad(t, ledger, client)
	load.goOn(t, 5000)
	load.end()
	lost := ledger.audit(t, client)
	t.Logf("%+v; %d tokens lost that were not yet confirmed", ledger.count(), lost)
}

// TestPromotedReplicaGrantsNothingTwice: both replicas lose their links, one after the
// other, before their primary is killed. The one that is further is promoted, and what it
// had is still counted; the other and the old primary follow it.
func TestPromotedReplicaGrantsNothingTwice(t *testing.T) {
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	primary := startPrimary(t)
	behind, further := startReplica(t, servertest.Module(t), primary), startReplica(t, servertest.Module(t), primary)
	for range servertest.QuickOrLong(2, 10) {
		ledger.survives = false
		load := startLoad(t, ledger, primary.Client(t))
		load.goOn(t, 2000)
		replicate(t, behind, nobody)
		load.goOn(t, 2000)
		answered := ledger.answered()
		servertest.AwaitReplicas(t, primary.Client(t), further.Client(t))
		ledger.keep(answered)
		replicate(t, further, nobody)
		load.goOn(t, 2000)
		primary.Kill()
		load.end()
		require.Greater(t, replicationOffset(t, further.Client(t)), replicationOffset(t, behind.Client(t)))

		require.NoError(t, further.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
		lost := ledger.audit(t, further.Client(t))
		require.Positive(t, lost, "calls that no replica has: there was something to lose")
		t.Logf("%+v; %d tokens lost that were not yet confirmed", ledger.count(), lost)
		replicate(t, behind, further.Port)
		awaitAttached(t, behind)
		primary.Reconfigure(func(options *servertest.Options) {
			options.Config = append(replicationConfig(), "--replicaof", "127.0.0.1", strconv.Itoa(further.Port))
		})
		primary.Restart(t)
		awaitAttached(t, primary)
		primary, behind, further = further, primary, behind
	}

	ledger.survives = true
	load := startLoad(t, ledger, primary.Client(t))
	load.goOn(t, 2000)
	load.stop(t)
	require.Zero(t, ledger.audit(t, primary.Client(t)))
	for _, replica := range []*servertest.Server{behind, further} {
		servertest.AwaitReplicas(t, primary.Client(t), replica.Client(t))
		ledger.requireSame(t, ledger.read(t, primary.Client(t)), ledger.read(t, replica.Client(t)), "a replica")
	}
}

// TestSentinelFailoverKeepsReplicatedCalls: three sentinels agree that the primary is gone,
// and promote one of its two replicas, which the other then follows.
func TestSentinelFailoverKeepsReplicatedCalls(t *testing.T) {
	t.Parallel()
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	primary := startPrimary(t)
	replicas := []*servertest.Server{startReplica(t, servertest.Module(t), primary), startReplica(t, servertest.Module(t), primary)}
	options := &redis.FailoverOptions{MasterName: servertest.SentinelName, MaxRetries: -1, ReadTimeout: servertest.Patience}
	for _, sentinel := range servertest.StartSentinels(t, 3, 2, 500*time.Millisecond, primary, len(replicas)) {
		options.SentinelAddrs = append(options.SentinelAddrs, sentinel.Addr())
	}
	client := redis.NewFailoverClient(options)
	defer client.Close()
	failOver(t, ledger, client, primary, replicas...)

	for i, replica := range replicas { // one of them is the primary
		servertest.AwaitReplicas(t, replicas[1-i].Client(t), replica.Client(t))
		ledger.requireSame(t, ledger.read(t, client), ledger.read(t, replica.Client(t)), "a replica")
	}
}
