package replication_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestReplicaServesItsFunnelsUntilItHasTheNewOnes: when it is too far behind, it loads all
// of them anew, and with repl-diskless-load swapdb it answers from the old ones meanwhile.
// Servers allow that only when every module agrees.
func TestReplicaServesItsFunnelsUntilItHasTheNewOnes(t *testing.T) {
	servertest.NeedSince7(t, "replicas that answer while they load")
	ctx := t.Context()
	ledger := openLedger(mixedFunnels("funnel:", 3000))
	primary := startPrimary(t, "--repl-diskless-sync", "yes", "--repl-backlog-size", "16kb")
	// A server that loads serves its clients every so many bytes: by default, every few
	// megabytes, which is more than the funnels.
	replica := startReplica(t, servertest.Module(t), primary, "--loading-process-events-interval-bytes", "1024")
	client, replicaClient := primary.Client(t), replica.Client(t)

	load := startLoad(t, ledger, client)
	load.goOn(t, 5000)
	servertest.AwaitReplicas(t, client, replicaClient)
	replicate(t, replica, nobody)
	offset := replicationOffset(t, client)
	servertest.Eventually(t, "the backlog has gone round", func() bool { return replicationOffset(t, client) > offset+1<<20 })
	require.NoError(t, client.ConfigSet(ctx, "rdb-key-save-delay", "100").Err()) // microseconds
	replicate(t, replica, primary.Port)
	loads := func() bool { return servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1 }
	servertest.Eventually(t, "the replica loads beside its funnels", loads)
	require.NotEmpty(t, replicaClient.RandomKey(ctx).Val())
	require.True(t, loads(), "that was too late")
	awaitAttached(t, replica)
	load.stop(t)

	servertest.AwaitReplicas(t, client, replicaClient)
	ledger.requireSame(t, ledger.read(t, client), ledger.read(t, replicaClient), "the replica")
	require.Zero(t, ledger.audit(t, client))
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

func startReplica(t testing.TB, module string, primary *servertest.Server, config ...string) *servertest.Server {
	t.Helper()
	return servertest.StartReplica(t, primary, servertest.Options{Module: module, Config: append(replicationConfig(), config...)})
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

func awaitAttached(t testing.TB, replica *servertest.Server) {
	t.Helper()
	// A server that loads may refuse INFO.
	client := replica.Client(t)
	servertest.Eventually(t, "the replica is attached", func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// replicationOffset is how much of the stream a primary has sent, or a replica executed.
func replicationOffset(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	return servertest.InfoField(t, client, "replication", "master_repl_offset")
}

// nobody is a port without a server. A replica of it has lost its link.
const nobody = 1

// replicate lets a server be a replica of another.
func replicate(t testing.TB, replica *servertest.Server, primaryPort int) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "127.0.0.1", strconv.Itoa(primaryPort)).Err())
}
