package replication_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestReplicasHoldTheSameFunnels as their primary, to the nanosecond: with the module or
// without, whatever their clocks say, and whether they were there before the load, or came
// under it, by a copy with a disk or without, or lost their link and caught up.
func TestReplicasHoldTheSameFunnels(t *testing.T) {
	ledger := openLedger(mixedFunnels())
	primary := startPrimary(t)
	client := primary.Client(t)

	whole := startReplica(t, primary.Port)
	lost := startReplica(t, primary.Port)
	ahead := startReplicaWithClock(t, primary.Port, time.Hour)
	load := startLoad(t, ledger, client)
	load.goOn(t, 5000)
	cutLink(t, lost)
	behind := startReplicaWithClock(t, primary.Port, -time.Hour)
	require.NoError(t, client.ConfigSet(context.Background(), "repl-diskless-sync", "yes").Err())
	bare := startServer(t, "", replicaConfig(primary.Port))
	awaitAttached(t, bare)
	load.goOn(t, servertest.QuickOrLong[int64](5000, 500_000))
	follow(t, lost, primary.Port)
	load.stop(t)

	require.Zero(t, ledger.audit(t, client))
	want := ledger.read(t, client)
	for _, replica := range []struct {
		name string
		*servertest.Server
	}{
		{"a replica", whole}, {"a replica that has lost its link", lost}, {"a replica without the module", bare},
		{"a replica whose clock is ahead", ahead}, {"a replica whose clock is behind", behind},
	} {
		awaitReplicated(t, primary, replica.Server)
		ledger.requireSame(t, want, ledger.read(t, replica.Client(t)), replica.name)
	}
	servertest.RequireError(t, bare.Client(t), "ERR unknown command", "key", 1, 1, 1)
	t.Log(ledger.count())
}

// TestReplicaServesItsFunnelsUntilItHasTheNewOnes: when it is too far behind, it loads all
// of them anew, and with repl-diskless-load swapdb it answers from the old ones meanwhile.
// Servers allow that only when every module agrees.
func TestReplicaServesItsFunnelsUntilItHasTheNewOnes(t *testing.T) {
	servertest.NeedSince7(t, "replicas that answer while they load")
	ctx := context.Background()
	ledger := openLedger(mixedFunnels())
	primary := startPrimary(t, "--repl-diskless-sync", "yes", "--repl-backlog-size", "16kb")
	// How often a server that loads serves its clients: the funnels are less than the
	// megabytes that are usual.
	replica := startReplica(t, primary.Port, "--loading-process-events-interval-bytes", "1024")
	client, replicaClient := primary.Client(t), replica.Client(t)

	load := startLoad(t, ledger, client)
	load.goOn(t, 5000)
	awaitReplicated(t, primary, replica)
	cutLink(t, replica)
	offset := servertest.InfoField(t, client, "replication", "master_repl_offset")
	servertest.Eventually(t, "the backlog has gone round", func() bool {
		return servertest.InfoField(t, client, "replication", "master_repl_offset") > offset+1<<20
	})
	// Below 0, keys for each microsecond, of which the operating system makes more.
	require.NoError(t, client.ConfigSet(ctx, "rdb-key-save-delay", "-4").Err())
	require.NoError(t, replicaClient.ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(primary.Port)).Err())
	loads := func() bool { return servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1 }
	servertest.Eventually(t, "the replica loads beside its funnels", loads)
	require.NotEmpty(t, replicaClient.RandomKey(ctx).Val())
	require.True(t, loads(), "that was too late")
	awaitAttached(t, replica)
	load.stop(t)

	awaitReplicated(t, primary, replica)
	ledger.requireSame(t, ledger.read(t, client), ledger.read(t, replicaClient), "the replica")
	require.Zero(t, ledger.audit(t, client))
}

// TestReplicasReplyREADONLY to allowed calls, limited calls and peeks, sent as they are or
// from a script; a promoted replica accepts them, and has the funnels as they were.
func TestReplicasReplyREADONLY(t *testing.T) {
	ctx := context.Background()
	const period = servertest.StillPeriod
	primary := startPrimary(t)
	replica := startReplica(t, primary.Port)
	servertest.Throttle(t, primary.Client(t), "full", 1, 1, period)
	servertest.Throttle(t, primary.Client(t), "half", 2, 1, period)
	awaitReplicated(t, primary, replica)
	client := replica.Client(t)

	for _, arguments := range [][]any{
		{"new", 1, 1, period}, {"new", 1, 1, period, 0},
		{"half", 2, 1, period}, {"full", 1, 1, period}, {"full", 1, 1, period, 0},
	} {
		servertest.RequireError(t, client, "READONLY", arguments...)
		script := `return redis.call('cl.throttle', KEYS[1], unpack(ARGV))`
		err := client.Eval(ctx, script, []string{arguments[0].(string)}, arguments[1:]...).Err()
		require.ErrorContains(t, err, "READONLY")
	}
	require.EqualValues(t, 2, client.DBSize(ctx).Val())

	promote(t, replica)
	require.EqualValues(t, 1, servertest.Throttle(t, client, "full", 1, 1, period)[0])
	require.Equal(t, servertest.Reply{0, 2, 0, -1, 2 * period}, servertest.Throttle(t, client, "half", 2, 1, period))
}

// startServer starts a server, with a module or without.
func startServer(t testing.TB, module string, config ...[]string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Module: module, Config: slices.Concat(config...)})
}

func startPrimary(t testing.TB, config ...string) *servertest.Server {
	t.Helper()
	return startServer(t, servertest.Module(t), replicationConfig(), config)
}

// startReplica starts a replica with the module, and waits until it is attached.
func startReplica(t testing.TB, primaryPort int, config ...string) *servertest.Server {
	t.Helper()
	replica := startServer(t, servertest.Module(t), replicaConfig(primaryPort), config)
	awaitAttached(t, replica)
	return replica
}

// startReplicaWithClock starts a replica whose module takes for now what lies that much
// ahead.
func startReplicaWithClock(t testing.TB, primaryPort int, ahead time.Duration) *servertest.Server {
	t.Helper()
	replica := startServer(t, servertest.DebugModule(t), replicaConfig(primaryPort))
	servertest.ClockOf(replica.Client(t)).Set(t, time.Now().Add(ahead))
	awaitAttached(t, replica)
	return replica
}

// replicationConfig lets full copies be made without waiting for one of the things that
// servers do once a second.
func replicationConfig() []string {
	return []string{
		"--save", "",
		"--hz", "100", // notices that a copy is written
		"--repl-diskless-sync", "no", // else a replica that is done too soon says so a second later
		"--repl-diskless-sync-delay", "0", // for those who say yes
		"--repl-diskless-load", "swapdb", // else Valkey 9 checks once a second for the file
		"--repl-backlog-size", "64mb",
	}
}

func replicaConfig(primaryPort int) []string {
	return append(replicationConfig(), "--replicaof", "127.0.0.1", strconv.Itoa(primaryPort))
}

func awaitAttached(t testing.TB, replica *servertest.Server) {
	t.Helper()
	// A server that loads may refuse INFO.
	client := replica.Client(t)
	servertest.Eventually(t, "the replica is attached", func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// awaitReplicated waits until a replica has executed all that its primary has sent so far.
func awaitReplicated(t testing.TB, primary, replica *servertest.Server) {
	t.Helper()
	sent := replicationOffset(t, primary.Client(t))
	client := replica.Client(t)
	servertest.Eventually(t, "the replica has everything", func() bool { return replicationOffset(t, client) >= sent })
}

// replicationOffset is how much of the stream a primary has sent, or a replica executed.
func replicationOffset(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	return servertest.InfoField(t, client, "replication", "master_repl_offset")
}

// cutLink cuts a replica off from its primary, by letting it follow nobody that is there.
func cutLink(t testing.TB, replica *servertest.Server) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "127.0.0.1", "1").Err())
}

// follow lets a replica follow a primary.
func follow(t testing.TB, replica *servertest.Server, primaryPort int) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "127.0.0.1", strconv.Itoa(primaryPort)).Err())
	awaitAttached(t, replica)
}

func promote(t testing.TB, replica *servertest.Server) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "no", "one").Err())
}
