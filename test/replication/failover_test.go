package replication_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A failover kills a primary under load. Somebody promotes a replica, and the load finds it.
type failover struct {
	ledger   *ledger
	client   redis.UniversalClient // finds the successor by itself, and calls once at the most
	primary  *servertest.Server
	replicas []*servertest.Server
}

// run requires that the successor has all that the replicas had confirmed, and nothing that
// was not asked for, and that what it answers itself is not lost.
func (f failover) run(t *testing.T) {
	t.Helper()
	f.ledger.answersSurvive(false)
	load := startLoad(t, f.ledger, f.client)
	for range servertest.QuickOrLong(5, 50) {
		load.goOn(t, 1000)
		answered := f.ledger.answered()
		for _, replica := range f.replicas {
			awaitReplicated(t, f.primary, replica)
		}
		f.ledger.keep(answered)
	}
	f.primary.Kill()
	killed := time.Now()
	load.stopDespiteFailures(t)

	f.ledger.answersSurvive(true)
	load = startLoad(t, f.ledger, f.client)
	load.goOn(t, 1)
	outage := time.Since(killed)
	load.goOn(t, 5000)
	load.stopDespiteFailures(t)
	lost := f.ledger.audit(t, f.client)
	t.Logf("%+v; the load went on after %v; %d tokens lost that were not yet confirmed",
		f.ledger.count(), outage.Round(time.Millisecond), lost)

}

// TestPromotedReplicaGrantsNothingTwice: both replicas lose their links, one after the
// other, before their primary is killed. The one that is further is promoted, and what it
// had is still counted; the other and the old primary follow it.
func TestPromotedReplicaGrantsNothingTwice(t *testing.T) {
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	primary := startPrimary(t)
	behind, further := startReplica(t, servertest.Module(t), primary.Port), startReplica(t, servertest.Module(t), primary.Port)
	for range servertest.QuickOrLong(2, 10) {
		ledger.answersSurvive(false)
		load := startLoad(t, ledger, primary.Client(t))
		load.goOn(t, 2000)
		cutLink(t, behind)
		load.goOn(t, 2000)
		answered := ledger.answered()
		awaitReplicated(t, primary, further)
		ledger.keep(answered)
		cutLink(t, further)
		load.goOn(t, 2000)
		primary.Kill()
		load.stopDespiteFailures(t)
		require.Greater(t, replicationOffset(t, further.Client(t)), replicationOffset(t, behind.Client(t)))

		promote(t, further)
		lost := ledger.audit(t, further.Client(t))
		require.Positive(t, lost, "calls that no replica has, so that there was something to lose")
		t.Logf("%+v; %d tokens lost that were not yet confirmed", ledger.count(), lost)
		follow(t, behind, further.Port)
		primary.Reconfigure(func(options *servertest.Options) { options.Config = replicaConfig(further.Port) })
		primary.Restart(t)
		awaitAttached(t, primary)
		primary, behind, further = further, primary, behind
	}

	ledger.answersSurvive(true)
	load := startLoad(t, ledger, primary.Client(t))
	load.goOn(t, 2000)
	load.stop(t)
	require.Zero(t, ledger.audit(t, primary.Client(t)))
	for _, replica := range []*servertest.Server{behind, further} {
		awaitReplicated(t, primary, replica)
		ledger.requireSame(t, ledger.read(t, primary.Client(t)), ledger.read(t, replica.Client(t)), "a replica")
	}
}

// TestSentinelFailoverKeepsReplicatedCalls: three sentinels agree that the primary is gone,
// and promote one of its two replicas, which the other then follows.
func TestSentinelFailoverKeepsReplicatedCalls(t *testing.T) {
	t.Parallel()
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	primary := startPrimary(t)
	replicas := []*servertest.Server{startReplica(t, servertest.Module(t), primary.Port), startReplica(t, servertest.Module(t), primary.Port)}
	options := &redis.FailoverOptions{MasterName: servertest.SentinelName, MaxRetries: -1, ReadTimeout: servertest.Patience}
	for _, sentinel := range servertest.StartSentinels(t, 3, 2, 500*time.Millisecond, primary, len(replicas)) {
		options.SentinelAddrs = append(options.SentinelAddrs, sentinel.Addr())
	}
	client := redis.NewFailoverClient(options)
	defer client.Close()
	failover{ledger, client, primary, replicas}.run(t)

	successor, other := replicas[0], replicas[1]
	isPrimary := func(server *servertest.Server) bool {
		return strings.Contains(server.Client(t).Info(t.Context(), "replication").Val(), "role:master")
	}
	if !isPrimary(successor) {
		successor, other = other, successor
	}
	require.False(t, isPrimary(other))
	awaitReplicated(t, successor, other)
	ledger.requireSame(t, ledger.read(t, successor.Client(t)), ledger.read(t, other.Client(t)), "the other replica")
}
