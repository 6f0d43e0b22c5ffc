// A replica answers CL.PEEK while it loads. Every server has its own users and its own version of
// the module. In a cluster, the keys of a call are in one slot, and move with the slot: no token is
// lost, and none is granted twice.

package replication_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// TestReplicaServesItsFunnelsUntilItHasTheNewOnes: a replica that is too far behind loads all keys
// again. With repl-diskless-load swapdb it answers from its old keys until then. Servers allow that
// only if every module agrees.
func TestReplicaServesItsFunnelsUntilItHasTheNewOnes(t *testing.T) {
	servertest.NeedSince7(t, "replicas that answer while they load")
	t.Parallel()
	load := &load{}
	primary := servertest.Start(t, withModule(t, "--repl-diskless-sync", "yes", "--repl-backlog-size", "16kb"))
	// While a server loads, it serves its clients after each interval of so many bytes. The default
	// of some megabytes is more than all keys have.
	replica := servertest.StartReplica(t, primary, withModule(t, "--loading-process-events-interval-bytes", "1024"))
	client, replicaClient := primary.Client(t), replica.Client(t)
	require.NoError(t, client.Do(t.Context(), "debug", "populate", 10_000, "other", 100).Err(),
		"keys that make the copy last")

	load.start(t, client)
	load.goOn(t, 500)
	servertest.AwaitReplicas(t, client, replicaClient)
	replicate(t, replica, 1)
	offset := replicationOffset(t, client)
	servertest.Eventually(t, "the backlog has gone round",
		func() bool { return replicationOffset(t, client) > offset+1<<17 })
	require.NoError(t, client.ConfigSet(t.Context(), "rdb-key-save-delay", "20").Err()) // microseconds
	replicate(t, replica, primary.Port)
	loads := func() bool { return servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1 }
	servertest.Eventually(t, "the replica loads beside its funnels", loads)
	require.NoError(t, replicaClient.Do(t.Context(), callOf("cl.peek", 0)...).Err())
	require.True(t, loads(), "the replica still loads after the peek")
	awaitAttached(t, replica)
	load.stop()

	servertest.AwaitReplicas(t, client, replicaClient)
	load.requireHeld(t, client)
	load.requireHeld(t, replicaClient)
}

const operationsPage = "../../docs/operations.md"

// TestUsersOnEveryServer: a user that was created on the primary alone is missing after a failover.
// A user that was created by the lines of the page still exists.
func TestUsersOnEveryServer(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	ctx := t.Context()
	primary := servertest.Start(t, withModule(t))
	replica := servertest.StartReplica(t, primary, withModule(t))
	run := func(name string) string {
		ports := strings.NewReplacer("6379", fmt.Sprint(primary.Port), "6380", fmt.Sprint(replica.Port))
		return page.Shell(t, t.TempDir(), primary.Port, ports.Replace(page.Marked(t, operationsPage, name)))
	}
	require.Regexp(t, `^(funnel_commit:\S.*\s+){2}$`, run("each instance"))

	servertest.Call(t, primary.Client(t), "acl setuser alone on >secret ~user:* +cl.throttle")
	require.Equal(t, "OK\nOK\n", run("users on every server"))
	require.NoError(t, replica.Client(t).ReplicaOf(ctx, "no", "one").Err())
	call := func(user string) error {
		as := replica.Client(t, func(options *redis.Options) { options.Username, options.Password = user, "secret" })
		return as.Do(ctx, "cl.throttle", "user:42", 15, 30, 60).Err()
	}
	require.NoError(t, call("app"))
	require.ErrorContains(t, call("alone"), "WRONGPASS")
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 and Redis 8.4 have a command that migrates
// slots; Valkey executes it only if every module agrees. Under load, slots of one primary move to
// the other primary and back. TestKeysAreFound tests which keys a server finds in a call.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	t.Parallel()
	// No node is given up only because the machine is busy: hence the minute.
	cluster := servertest.StartCluster(t, 2, time.Minute, servertest.Options{Module: servertest.Module(t)})
	t.Run("page", func(t *testing.T) {
		page.NeedRedisCLI(t)
		look := page.Shell(t, t.TempDir(), cluster.Primaries[0].Port, page.Marked(t, operationsPage, "failover"))
		require.Regexp(t, `(?s)^cluster_state:ok.* myself,master .*funnel_commit:.*user default on`, look)
	})
	client := cluster.Client(t, func(options *redis.ClusterOptions) { // follows slots that move again and again
		options.MaxRedirects, options.MinRetryBackoff = 16, -1
	})
	load := &load{}
	load.start(t, client)
	from, to := cluster.Primaries[0], cluster.Primaries[1]
	for range servertest.QuickOrLong(4, 40) {
		load.goOn(t, 500)
		before := load.answered.Load()
		if !cluster.Migrate(t, 8000, from, to) {
			t.Skip("this server carries slots key by key only")
		}
		require.NotEqual(t, before, load.answered.Load(), "calls while slots were carried")
		from, to = to, from
	}
	load.stop()
	load.requireHeld(t, client)
}
