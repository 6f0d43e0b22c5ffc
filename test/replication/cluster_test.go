package replication_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
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

// TestClusterClientsAreRedirected by MOVED and, while a slot moves, by ASK: as
// for any command with one key, and the funnel moves with its tokens.
func TestClusterClientsAreRedirected(t *testing.T) {
	cluster := startCluster(t, 3, patientNodes)
	ctx := context.Background()
	slot := cluster.Slot(t, "{user}")
	from := cluster.Owner(slot)
	to := cluster.Owner((slot + 8192) % 16384)
	require.NotSame(t, from, to)
	move := cluster.Move(slot, from, to)
	client := cluster.Client(t)
	// Learns the map of the slots now, and nothing of the move.
	unaware := cluster.Client(t)
	call := func(client servertest.Commander, key string) servertest.Reply {
		return servertest.Throttle(t, client, key, 15, 1, servertest.StillPeriod)
	}

	for _, node := range cluster.Nodes() {
		if node != from {
			servertest.RequireError(t, node.Direct, redirection("MOVED", slot, from), "{user}:old", 15, 1, servertest.StillPeriod)
		}
	}
	require.EqualValues(t, 14, call(client, "{user}:old")[2])
	require.EqualValues(t, 13, call(unaware, "{user}:old")[2])
	tat := client.Get(ctx, "{user}:old").Val()

	asked, moved := redirections(t, from)
	move.Begin(t)
	require.EqualValues(t, 12, call(client, "{user}:old")[2], "the old owner serves what it has")
	servertest.RequireError(t, from.Direct, redirection("ASK", slot, to), "{user}:new", 15, 1, servertest.StillPeriod)
	servertest.RequireError(t, to.Direct, redirection("MOVED", slot, from), "{user}:new", 15, 1, servertest.StillPeriod)
	require.EqualValues(t, 14, call(client, "{user}:new")[2], "the new owner makes what is missing")
	require.EqualValues(t, 13, call(client, "{user}:new")[2])
	askedNow, movedNow := redirections(t, from)
	require.EqualValues(t, 3, askedNow-asked, "one without, two with a client that follows")
	require.Equal(t, moved, movedNow)

	before := from.Direct.Get(ctx, "{user}:old").Val()
	require.NotEqual(t, tat, before)
	require.Equal(t, 1, move.MoveKeys(t, 10))
	require.Zero(t, move.MoveKeys(t, 10))
	servertest.RequireError(t, from.Direct, redirection("ASK", slot, to), "{user}:old", 15, 1, servertest.StillPeriod)
	require.EqualValues(t, 11, call(client, "{user}:old")[2])

	move.End(t)
	servertest.RequireError(t, from.Direct, redirection("MOVED", slot, to), "{user}:old", 15, 1, servertest.StillPeriod)
	require.EqualValues(t, 10, call(unaware, "{user}:old")[2])
	_, movedAtLast := redirections(t, from)
	require.EqualValues(t, 2, movedAtLast-movedNow, "one without, one with a client that follows")
	require.EqualValues(t, 12, call(client, "{user}:new")[2])
}

func redirection(kind string, slot int, to *servertest.ClusterNode) string {
	return fmt.Sprintf("%s %d %s", kind, slot, to.Addr())
}

// redirections is how often a node has sent a client elsewhere.
func redirections(t testing.TB, node *servertest.ClusterNode) (asked, moved int) {
	t.Helper()
	info, err := node.Direct.Info(context.Background(), "errorstats").Result()
	require.NoError(t, err)
	count := func(kind string) int {
		found := regexp.MustCompile(`errorstat_` + kind + `:count=(\d+)`).FindStringSubmatch(info)
		if found == nil {
			return 0
		}
		count, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return count
	}
	return count("ASK"), count("MOVED")
}

// TestClusterHashTagsKeepFunnelsTogether: funnels with one tag share a slot, so
// one transaction or script may pour into several, which it may not otherwise.
func TestClusterHashTagsKeepFunnelsTogether(t *testing.T) {
	cluster := startCluster(t, 3, patientNodes)
	client := cluster.Client(t)
	ctx := context.Background()
	for user := range 20 {
		perMinute, perDay := fmt.Sprintf("{user:%d}:minute", user), fmt.Sprintf("{user:%d}:day", user)
		require.Equal(t, cluster.Slot(t, perMinute), cluster.Slot(t, perDay))

		pipeline := client.TxPipeline()
		minute := pipeline.Do(ctx, "cl.throttle", perMinute, 5, 1, servertest.StillPeriod)
		day := pipeline.Do(ctx, "cl.throttle", perDay, 50, 1, servertest.StillPeriod)
		_, err := pipeline.Exec(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 4, servertest.ToReply(t, minute)[2])
		require.EqualValues(t, 49, servertest.ToReply(t, day)[2])

		const both = `redis.call('cl.throttle', KEYS[1], 5, 1, ARGV[1])
			return redis.call('cl.throttle', KEYS[2], 50, 1, ARGV[1])`
		require.EqualValues(t, 48, servertest.ToReply(t, client.Eval(ctx, both, []string{perMinute, perDay}, servertest.StillPeriod))[2])
		require.EqualValues(t, 3, servertest.Throttle(t, client, perMinute, 5, 1, servertest.StillPeriod, 0)[2])
	}
	const both = `return redis.call('cl.throttle', KEYS[1], 5, 1, 1) and redis.call('cl.throttle', KEYS[2], 5, 1, 1)`
	owner := cluster.Owner(cluster.Slot(t, "{one}"))
	err := owner.Direct.Eval(ctx, both, []string{"{one}", "{another}"}).Err()
	require.ErrorContains(t, err, "CROSSSLOT")
}

// followRedirections lets a client follow slots that move again and again.
func followRedirections(options *redis.ClusterOptions) {
	options.MaxRedirects, options.MinRetryBackoff = 16, -1
}

// stillFunnels do not leak, and so are full in the end.
func stillFunnels(count int, name string, capacity int64) (funnels []funnel) {
	for i := range count {
		funnels = append(funnels, funnel{fmt.Sprintf("%s:%d", name, i), capacity, still})
	}
	return funnels
}

// TestClusterSlotMovesWhileInUse: of a slot that is carried from server to server while its
// funnels are filled, nothing is lost and nothing granted twice.
func TestClusterSlotMovesWhileInUse(t *testing.T) {
	cluster := startCluster(t, 3, patientNodes)
	client := cluster.Client(t, followRedirections)
	moves := servertest.QuickOrLong(5, 40)
	const perMove = 6
	ledger := openLedger(stillFunnels(perMove*(2*moves+1), "{user}", 250))
	ledger.migrated = true
	load := startLoad(t, ledger, client)
	load.funnels.Store(perMove) // before each move and in the middle of it further ones come into use

	slot := cluster.Slot(t, "{user}")
	owner := cluster.Owner(slot)
	carried := 0
	for round := range moves {
		next := cluster.Primaries[round%len(cluster.Primaries)]
		if next == owner {
			next = cluster.Primaries[(round+1)%len(cluster.Primaries)]
		}
		load.goOn(t, 500)
		load.funnels.Add(perMove)
		move := cluster.Move(slot, owner, next)
		move.Begin(t)
		load.goOn(t, 500)
		load.funnels.Add(perMove)
		for batch := -1; batch != 0; carried += batch {
			batch = move.MoveKeys(t, 1+round%4)
			load.goOn(t, 100)
		}
		move.End(t)
		owner = next
	}
	load.fill(t)
	load.stop(t)
	require.Zero(t, ledger.audit(t, client))

	var asked, moved int
	for _, node := range cluster.Primaries {
		nodeAsked, nodeMoved := redirections(t, node)
		asked, moved = asked+nodeAsked, moved+nodeMoved
	}
	require.Positive(t, asked)
	require.Positive(t, moved)
	t.Logf("%v; %d moves of the slot, %d keys carried; ASK %d times, MOVED %d times", ledger.count(), moves, carried, asked, moved)
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 migrates slots by itself, if every
// module says that it can do with that. All slots of one primary go to the other and back
// under load, and nothing is lost and nothing granted twice.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	known, err := servertest.Start(t, servertest.Options{}).Client(t).Do(t.Context(), "command", "info", "cluster|migrateslots").Slice()
	require.NoError(t, err)
	if known[0] == nil {
		t.Skip("this server has no CLUSTER MIGRATESLOTS")
	}
	cluster := startCluster(t, 2, patientNodes, "--cluster-allow-replica-migration", "no") // a primary without slots stays one
	client := cluster.Client(t, followRedirections)
	migrations := servertest.QuickOrLong(6, 40)
	const perMigration = 50
	ledger := openLedger(stillFunnels(perMigration*(migrations+1), "user", 120))
	load := startLoad(t, ledger, client)
	load.funnels.Store(perMigration)

	from, to := 0, 1
	var during int64
	for range migrations {
		load.goOn(t, 1000)
		load.funnels.Add(perMigration)
		before := ledger.count().answered()
		cluster.MigrateAll(t, cluster.Primaries[from], cluster.Primaries[to])
		during += ledger.count().answered() - before
		from, to = to, from // which has none at all from the first time on
	}
	load.fill(t)
	load.stop(t)
	require.Positive(t, during, "calls while slots were carried")
	require.Zero(t, ledger.audit(t, client))

	requireClusterReplica(t, ledger, cluster.Primaries[from], cluster.Replicas[from])
	for _, node := range []*servertest.ClusterNode{cluster.Primaries[to], cluster.Replicas[to]} {
		servertest.Eventually(t, "nothing is left behind", func() bool { return node.Direct.DBSize(t.Context()).Val() == 0 })
	}
	t.Logf("%v, %d of them during %d migrations", ledger.count(), during, migrations)
}

// TestClusterFailoverKeepsReplicatedCalls: a primary is killed and the cluster promotes its
// replica, which the old primary follows when it is back.
func TestClusterFailoverKeepsReplicatedCalls(t *testing.T) {
	cluster := startCluster(t, 3, 2*time.Second)
	killed, successor := cluster.Primaries[0], cluster.Replicas[0]
	var funnels []funnel
	for _, funnel := range mixedFunnels() {
		if cluster.Owner(cluster.Slot(t, funnel.key)) == killed {
			funnels = append(funnels, funnel)
		}
	}
	ledger := openLedger(funnels)
	client := cluster.Client(t, func(options *redis.ClusterOptions) {
		options.MaxRedirects = -1 // go-redis redirects broken connections, too, and would call twice
		// A killed primary does not redirect, and go-redis does not reload the slots because
		// of a refused connection: it does so every minute by default.
		options.ClusterStateReloadInterval = 250 * time.Millisecond
	})
	failover{ledger, client, killed.Server, []*servertest.Server{successor.Server}}.run(t)

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
