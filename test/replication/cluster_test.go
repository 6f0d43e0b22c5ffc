package replication_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// patientNodes is a node timeout at which no node of a cluster is given up only
// because the machine is busy.
const patientNodes = time.Minute

func startCluster(t *testing.T, nodeTimeout time.Duration) *servertest.Cluster {
	t.Helper()
	return servertest.StartCluster(t, 3, nodeTimeout, servertest.Options{Module: servertest.Module(t)})
}

// TestClusterClientsAreRedirected by MOVED and, while a slot moves, by ASK: as
// for any command with one key, and the funnel moves with its tokens.
func TestClusterClientsAreRedirected(t *testing.T) {
	cluster := startCluster(t, patientNodes)
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
	cluster := startCluster(t, patientNodes)
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

// A ledger counts the tokens that clients were granted from still funnels, which
// is to agree with what the servers have kept of them.
type ledger struct {
	keys     []string
	capacity int64
	granted  []atomic.Int64 // by key
	limited  []atomic.Int64 // by key: calls
	calls    atomic.Int64   // with an answer
	failed   atomic.Int64   // calls without
}

func newLedger(capacity int64, keys []string) *ledger {
	return &ledger{
		keys: keys, capacity: capacity,
		granted: make([]atomic.Int64, len(keys)), limited: make([]atomic.Int64, len(keys)),
	}
}

// snapshot is what has been granted so far, by key.
func (l *ledger) snapshot() []int64 {
	granted := make([]int64, len(l.granted))
	for i := range granted {
		granted[i] = l.granted[i].Load()
	}
	return granted
}

// total is what has been granted so far.
func (l *ledger) total() (total int64) {
	for _, granted := range l.snapshot() {
		total += granted
	}
	return total
}

// full reports whether each of the first funnels has limited a call.
func (l *ledger) full(count int) bool {
	for i := range count {
		if l.limited[i].Load() == 0 {
			return false
		}
	}
	return true
}

// pour takes one token and counts the reply.
func (l *ledger) pour(client servertest.Commander, key int) error {
	got, err := client.Do(context.Background(), "cl.throttle", l.keys[key], l.capacity, 1, servertest.StillPeriod).Int64Slice()
	switch {
	case err != nil:
		l.failed.Add(1)
		return err
	case got[0] == 0:
		l.granted[key].Add(1)
	default:
		l.limited[key].Add(1)
	}
	l.calls.Add(1)
	return nil
}

// used reads from the server how many tokens are in a funnel.
func (l *ledger) used(client servertest.Commander, key int) (int64, error) {
	got, err := client.Do(context.Background(), "cl.throttle", l.keys[key], l.capacity, 1, servertest.StillPeriod, 0).Int64Slice()
	if err != nil {
		return 0, err
	}
	return l.capacity - got[2], nil
}

// hammer has some clients pour into the funnels at random until the function that it
// returns is called, which waits for the end of their last calls.
func (l *ledger) hammer(client servertest.Commander, open func() int) (stop func()) {
	const clients = 6
	var stopping atomic.Bool
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for !stopping.Load() {
				if l.pour(client, rand.IntN(open())) != nil {
					// Connections to a killed server fail at once: do not
					// use all of the processor.
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return func() {
		stopping.Store(true)
		running.Wait()
	}
}

// TestClusterSlotMovesWhileInUse: of a slot that is carried from server to server
// while its funnels are poured into, nothing is lost and nothing granted twice.
func TestClusterSlotMovesWhileInUse(t *testing.T) {
	cluster := startCluster(t, patientNodes)
	client := cluster.Client(t, func(options *redis.ClusterOptions) { options.MaxRedirects = 16 })
	moves := servertest.QuickOrLong(5, 40)
	const perMove, capacity = 6, 250

	// Before each move and in the middle of it further funnels come into use.
	var keys []string
	for i := range perMove * (2*moves + 1) {
		keys = append(keys, fmt.Sprintf("{user}:%d", i))
	}
	ledger := newLedger(capacity, keys)
	var open atomic.Int64
	open.Store(perMove)
	stop := ledger.hammer(client, func() int { return int(open.Load()) })
	defer stop()
	progress := func(calls int64) {
		target := ledger.calls.Load() + calls
		servertest.Eventually(t, "the clients go on", func() bool { return ledger.calls.Load() >= target || ledger.failed.Load() > 0 })
	}

	slot := cluster.Slot(t, "{user}")
	owner := cluster.Owner(slot)
	carried := 0
	for round := range moves {
		next := cluster.Primaries[round%len(cluster.Primaries)]
		if next == owner {
			next = cluster.Primaries[(round+1)%len(cluster.Primaries)]
		}
		progress(100)
		open.Add(perMove)
		move := cluster.Move(slot, owner, next)
		move.Begin(t)
		progress(50)
		open.Add(perMove)
		for {
			batch := move.MoveKeys(t, 1+round%4)
			if batch == 0 {
				break
			}
			carried += batch
			progress(20)
		}
		move.End(t)
		owner = next
	}
	servertest.Eventually(t, "every funnel is full", func() bool { return ledger.full(len(keys)) || ledger.failed.Load() > 0 })
	stop()

	require.Zero(t, ledger.failed.Load(), "every call was answered")
	for i, granted := range ledger.snapshot() {
		require.EqualValues(t, capacity, granted, "tokens granted from %s", keys[i])
		used, err := ledger.used(client, i)
		require.NoError(t, err)
		require.EqualValues(t, capacity, used, "tokens in %s", keys[i])
	}
	var asked, moved int
	for _, node := range cluster.Primaries {
		nodeAsked, nodeMoved := redirections(t, node)
		asked, moved = asked+nodeAsked, moved+nodeMoved
	}
	require.Positive(t, asked)
	require.Positive(t, moved)
	t.Logf("%d calls on %d funnels, %d moves of the slot, %d keys carried; ASK %d times, MOVED %d times; tokens lost: 0, granted twice: 0",
		ledger.calls.Load(), len(keys), moves, carried, asked, moved)
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 migrates slots by itself, if
// every module says that it can do with that. All slots of one primary go to the other
// and back under load, and nothing is lost and nothing granted twice.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	known, err := servertest.Start(t, servertest.Options{}).Client(t).
		Do(context.Background(), "command", "info", "cluster|migrateslots").Slice()
	require.NoError(t, err)
	if known[0] == nil {
		t.Skip("this server has no CLUSTER MIGRATESLOTS")
	}
	cluster := servertest.StartCluster(t, 2, patientNodes, servertest.Options{
		Module: servertest.Module(t),
		// A primary without slots stays one.
		Config: []string{"--cluster-allow-replica-migration", "no"},
	})
	client := cluster.Client(t, func(options *redis.ClusterOptions) { options.MaxRedirects = 16 })
	migrations := servertest.QuickOrLong(6, 40)
	const perMigration, capacity = 50, 120

	// Keys of all slots, and before each migration further ones.
	var keys []string
	for i := range perMigration * (migrations + 1) {
		keys = append(keys, fmt.Sprintf("user:%d", i))
	}
	ledger := newLedger(capacity, keys)
	var open atomic.Int64
	open.Store(perMigration)
	started := time.Now()
	stop := ledger.hammer(client, func() int { return int(open.Load()) })
	defer stop()

	from, to := 0, 1
	var during int64
	for range migrations {
		target := ledger.calls.Load() + 1000
		servertest.Eventually(t, "the clients go on", func() bool { return ledger.calls.Load() >= target || ledger.failed.Load() > 0 })
		open.Add(perMigration)
		before := ledger.calls.Load()
		cluster.MigrateAll(t, cluster.Primaries[from], cluster.Primaries[to])
		during += ledger.calls.Load() - before
		from, to = to, from // which has none at all from the first time on
	}
	servertest.Eventually(t, "every funnel is full", func() bool { return ledger.full(len(keys)) || ledger.failed.Load() > 0 })
	stop()

	require.Zero(t, ledger.failed.Load(), "every call was answered")
	require.Positive(t, during, "calls while slots were carried")
	const leak = servertest.StillPeriod * time.Second // from one token to the next
	for i, granted := range ledger.snapshot() {
		require.EqualValues(t, capacity, granted, "tokens granted from %s", keys[i])
		used, err := ledger.used(client, i)
		require.NoError(t, err)
		require.EqualValues(t, capacity, used, "tokens in %s", keys[i])

		// What is left without those tokens is the instant of the first.
		tat, err := client.Get(context.Background(), keys[i]).Int64()
		require.NoError(t, err)
		first := time.Unix(0, tat).Add(-capacity * leak)
		require.WithinRange(t, first, started, time.Now(), keys[i])
	}
	requireSameFunnels(t, keys, cluster.Primaries[from].Direct, cluster.Replicas[from].Direct)
	for _, node := range []*servertest.ClusterNode{cluster.Primaries[to], cluster.Replicas[to]} {
		servertest.Eventually(t, "nothing is left behind", func() bool { return node.Direct.DBSize(context.Background()).Val() == 0 })
	}
	t.Logf("%d calls on %d funnels, %d of them during %d migrations; tokens lost: 0, granted twice: 0",
		ledger.calls.Load(), len(keys), during, migrations)
}

// TestClusterFailoverKeepsReplicatedCalls: a primary is killed under load and the
// cluster promotes its replica. No funnel is emptier than the calls that were
// acknowledged and replicated, and clients go on.
func TestClusterFailoverKeepsReplicatedCalls(t *testing.T) {
	cluster := startCluster(t, 2*time.Second)
	killed, successor := cluster.Primaries[0], cluster.Replicas[0]
	var keys []string
	for i := 0; len(keys) < servertest.QuickOrLong(30, 300); i++ {
		if key := fmt.Sprintf("user:%d", i); cluster.Owner(cluster.Slot(t, key)) == killed {
			keys = append(keys, key)
		}
	}
	failover := failover{
		ledger: newLedger(servertest.QuickOrLong[int64](300, 1000), keys),
		client: cluster.Client(t, func(options *redis.ClusterOptions) {
			// A killed primary does not redirect, and go-redis does not reload the
			// slots because of a refused connection: it does so every minute by
			// default.
			options.ClusterStateReloadInterval = 250 * time.Millisecond
		}),
		primary:      killed.Server,
		replicas:     1,
		hasSucceeded: successor.IsPrimary,
	}
	failover.run(t)

	// The old primary comes back as a replica, and catches up.
	killed.Restart(t)
	servertest.Eventually(t, "the old primary follows the new one", func() bool { return !killed.IsPrimary() })
	requireSameFunnels(t, keys, successor.Direct, killed.Direct)
}

// requireSameFunnels waits until a replica holds the primary's funnels.
func requireSameFunnels(t testing.TB, keys []string, primary, replica *redis.Client) {
	t.Helper()
	ctx := context.Background()
	connection := replica.Conn()
	defer connection.Close()
	// Redirects to the primary otherwise, in a cluster; elsewhere it is no error.
	connection.ReadOnly(ctx)
	for _, key := range keys {
		want := primary.Get(ctx, key).Val()
		require.NotEmpty(t, want)
		servertest.Eventually(t, "the replica holds "+key, func() bool { return connection.Get(ctx, key).Val() == want })
		require.Equal(t, servertest.ExpiryOf(t, primary, key), servertest.ExpiryOf(t, connection, key))
	}
}

// A failover kills a primary under load, and checks its successor.
type failover struct {
	ledger       *ledger
	client       servertest.Commander // finds the successor by itself
	primary      *servertest.Server   // is killed
	replicas     int                  // of the primary
	hasSucceeded func() bool          // says whether another has taken over
}

func (f failover) run(t *testing.T) {
	t.Helper()
	ledger := f.ledger
	all := func() int { return len(ledger.keys) }

	// What is granted before a WAIT is replicated after it: the write that WAIT
	// waits for comes later in the stream of replication than they do.
	stop := ledger.hammer(f.client, all)
	defer stop()
	connection := f.primary.Client(t).Conn()
	defer connection.Close()
	ctx := context.Background()
	var replicated []int64
	waits := 0
	enough := int64(len(ledger.keys)) * ledger.capacity / 3
	servertest.Eventually(t, "the funnels fill", func() bool {
		granted := ledger.snapshot()
		require.NoError(t, connection.Set(ctx, "{"+ledger.keys[0]+"}:mark", waits, 0).Err())
		acknowledged, err := connection.Wait(ctx, f.replicas, servertest.Patience).Result()
		require.NoError(t, err)
		require.EqualValues(t, f.replicas, acknowledged)
		replicated = granted
		waits++
		return ledger.total() >= enough
	})

	f.primary.Kill()
	killed := time.Now()
	stop()
	granted := ledger.snapshot()
	require.Less(t, ledger.total(), int64(len(ledger.keys))*ledger.capacity, "the funnels had room left")
	servertest.Eventually(t, "another takes over", f.hasSucceeded)
	succeeded := time.Since(killed)
	var recovered time.Duration
	var checked, unreplicated, lost int64
	for i, key := range ledger.keys {
		var used int64
		servertest.Eventually(t, "the client goes on", func() (answered bool) {
			var err error
			used, err = ledger.used(f.client, i)
			return err == nil
		})
		if i == 0 {
			recovered = time.Since(killed)
		}
		require.GreaterOrEqual(t, used, replicated[i], "tokens left in %s, of those granted and replicated", key)
		checked += replicated[i]
		unreplicated += granted[i] - replicated[i]
		lost += max(0, granted[i]-used)
	}
	require.Positive(t, checked)

	// So no more is granted twice than what the replicas had not confirmed.
	stop = ledger.hammer(f.client, all)
	defer stop()
	servertest.Eventually(t, "every funnel is full", func() bool { return ledger.full(len(ledger.keys)) })
	stop()
	for i, total := range ledger.snapshot() {
		require.LessOrEqual(t, total, ledger.capacity+granted[i]-replicated[i], "tokens granted from %s", ledger.keys[i])
	}
	t.Logf("%d calls answered and %d not, %d funnels, %d waits; a successor after %v, the client goes on after %v; "+
		"%d tokens granted and replicated, of which lost: 0; %d granted and not yet replicated, of which lost: %d",
		ledger.calls.Load(), ledger.failed.Load(), len(ledger.keys), waits, succeeded.Round(time.Millisecond),
		recovered.Round(time.Millisecond), checked, unreplicated, lost)
}
