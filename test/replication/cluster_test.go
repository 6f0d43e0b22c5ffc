package replication_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// patientNodes is a node timeout at which no node of a cluster is given up only
// because the machine is busy.
const patientNodes = time.Minute

func startCluster(t *testing.T, primaries int, nodeTimeout time.Duration, config ...string) *servertest.Cluster {
	t.Helper()
	return servertest.StartCluster(t, primaries, nodeTimeout, servertest.Options{Module: servertest.Module(t), Config: config})
}

// TestClusterFunnelsHaveSlots, as any key has: another node redirects a call, and a script
// may use the funnels of one tag, but of no other.
func TestClusterFunnelsHaveSlots(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patientNodes)
	const minute, day, period = "{user}:minute", "{user}:day", servertest.StillPeriod
	slot := cluster.Slot(t, minute)
	owner := cluster.Owner(slot)
	for _, node := range cluster.Nodes() {
		if node != owner {
			servertest.RequireError(t, node.Direct, fmt.Sprintf("MOVED %d %s", slot, owner.Addr()), minute, 5, 1, period)
		}
	}
	const both = `return {redis.call('cl.throttle', KEYS[1], 5, 1, ARGV[1])[3], redis.call('cl.throttle', KEYS[2], 50, 1, ARGV[1])[3]}`
	remaining, err := cluster.Client(t).Eval(t.Context(), both, []string{minute, day}, period).Int64Slice()
	require.NoError(t, err)
	require.Equal(t, []int64{4, 49}, remaining)
	err = owner.Direct.Eval(t.Context(), both, []string{minute, "{another}:day"}, period).Err()
	require.ErrorContains(t, err, "CROSSSLOT")
}

// followRedirections lets a client follow slots that move again and again.
func followRedirections(options *redis.ClusterOptions) {
	options.MaxRedirects, options.MinRetryBackoff = 16, -1
}

// TestClusterSlotMovesWhileInUse: of a slot that is carried from server to server while its
// funnels are filled, nothing is lost and nothing granted twice.
func TestClusterSlotMovesWhileInUse(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patientNodes)
	client := cluster.Client(t, followRedirections)
	ledger := openLedger(mixedFunnels("{user}:", 90))
	ledger.migrated = true
	load := startLoad(t, ledger, client)
	slot := cluster.Slot(t, "{user}:0")
	owner := cluster.Owner(slot)
	moves, carried := servertest.QuickOrLong(5, 40), 0
	for round := range moves {
		next := cluster.Primaries[(slices.Index(cluster.Primaries, owner)+1)%len(cluster.Primaries)]
		load.goOn(t, 500)
		move := cluster.Move(slot, owner, next)
		move.Begin(t)
		load.goOn(t, 500)
		for batch := -1; batch != 0; carried += max(0, batch) {
			batch = move.MoveKeys(t, 1+round%4)
			load.goOn(t, 100)
		}
		move.End(t)
		owner = next
	}
	load.stop(t)
	require.Zero(t, ledger.audit(t, client))

	var redirections string
	for _, node := range cluster.Primaries {
		redirections += node.Direct.Info(t.Context(), "errorstats").Val()
	}
	require.Contains(t, redirections, "errorstat_ASK:")
	require.Contains(t, redirections, "errorstat_MOVED:")
	t.Logf("%+v; %d moves of the slot, %d keys carried", ledger.count(), moves, carried)
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 migrates slots by itself, if every
// module says that it can do with that. All slots of one primary go to the other and back
// under load, and nothing is lost and nothing granted twice.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	t.Parallel()
	known, err := servertest.Start(t, servertest.Options{}).Client(t).Do(t.Context(), "command", "info", "cluster|migrateslots").Slice()
	require.NoError(t, err)
	if known[0] == nil {
		t.Skip("this server has no CLUSTER MIGRATESLOTS")
	}
	cluster := startCluster(t, 2, patientNodes, "--cluster-allow-replica-migration", "no") // a primary without slots stays one
	client := cluster.Client(t, followRedirections)
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	load := startLoad(t, ledger, client)
	from, to := 0, 1
	var during int64
	for range servertest.QuickOrLong(6, 40) {
		load.goOn(t, 1000)
		before := ledger.count().answered()
		cluster.MigrateAll(t, cluster.Primaries[from], cluster.Primaries[to])
		during += ledger.count().answered() - before
		from, to = to, from // which has none at all from the first time on
	}
	load.stop(t)
	require.Positive(t, during, "calls while slots were carried")
	require.Zero(t, ledger.audit(t, client))
	requireClusterReplica(t, ledger, cluster.Primaries[from], cluster.Replicas[from])
	t.Logf("%+v, %d calls while slots were carried", ledger.count(), during)
}

// TestClusterFailoverKeepsReplicatedCalls: a primary is killed and the cluster promotes its
// replica, which the old primary follows when it is back.
func TestClusterFailoverKeepsReplicatedCalls(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 2*time.Second)
	killed, successor := cluster.Primaries[0], cluster.Replicas[0]
	ledger := openLedger(slices.DeleteFunc(mixedFunnels("funnel:", 3000), func(funnel funnel) bool {
		return cluster.Owner(cluster.Slot(t, funnel.key)) != killed
	}))
	client := cluster.Client(t, func(options *redis.ClusterOptions) {
		options.MaxRedirects = -1 // go-redis redirects broken connections, too, and would call twice
		// A killed primary does not redirect, and go-redis does not reload the slots because
		// of a refused connection: it does so every minute by default.
		options.ClusterStateReloadInterval = 250 * time.Millisecond
	})
	failOver(t, ledger, client, killed.Server, successor.Server)

	killed.Restart(t)
	servertest.Eventually(t, "the old primary follows the new one", func() bool { return !killed.IsPrimary() })
	requireClusterReplica(t, ledger, successor, killed)
}

// requireClusterReplica requires that a replica holds the funnels of its primary, which has
// all there are.
func requireClusterReplica(t *testing.T, ledger *ledger, primary, replica *servertest.ClusterNode) {
	t.Helper()
	awaitAttached(t, replica.Server)
	awaitReplicated(t, primary.Server, replica.Server)
	reader := replica.Client(t, func(options *redis.Options) { // it redirects to the primary otherwise
		options.OnConnect = func(ctx context.Context, connection *redis.Conn) error { return connection.ReadOnly(ctx).Err() }
	})
	ledger.requireSame(t, ledger.read(t, primary.Direct), ledger.read(t, reader), "the replica")
}
