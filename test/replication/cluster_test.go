// In a cluster, the funnels of a call are in one slot, and move with it; no token is lost, and none
// is granted twice.

package replication_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// startCluster starts two primaries. No node is given up only because the machine is busy.
func startCluster(t *testing.T) *servertest.Cluster {
	return servertest.StartCluster(t, 2, time.Minute, servertest.Options{Module: servertest.Module(t)})
}

// TestClusterFunnelsHaveSlots: a funnel is in a slot of the cluster, as any key is. The funnels of one
// call are in one slot, by hash tags. A replica answers CL.PEEK.
func TestClusterFunnelsHaveSlots(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	ctx := t.Context()
	owner, other, replica := cluster.Primaries[0], cluster.Primaries[1], cluster.Replicas[0]
	if cluster.Owner(cluster.Slot(t, "{u}")) != owner {
		owner, other, replica = other, owner, cluster.Replicas[1]
	}
	// requireAll requires that the reply of each command to a call of these keys begins so.
	requireAll := func(client servertest.Commander, keys, want string) {
		for _, command := range contract.Commands {
			if command.Rows == 1 && strings.Contains(keys, " ") {
				continue
			}
			line := command.Name + strings.ReplaceAll(" "+keys+" ", "} ", "} 9 1 10000 1 ")
			require.Regexp(t, "^"+want, servertest.Try(client, line), line)
		}
	}
	const fine, both = "0 ", "cl.peek 1{u} 9 1 10000 1 2{u} 9 1 10000 1"
	held := func(client servertest.Commander) string { return servertest.Call(t, client, "mget 1{u} 2{u}") }
	requireAll(owner.Direct, "1{u} 2{u} 1{v}", "CROSSSLOT")
	requireAll(other.Direct, "1{u} 2{u}", `MOVED \d+ `+owner.Addr())
	requireAll(cluster.Client(t), "1{u} 2{u}", fine)

	reader := replica.Direct.Conn()
	defer reader.Close()
	servertest.AwaitReplicas(t, owner.Direct, replica.Direct)
	require.NoError(t, reader.ReadOnly(ctx).Err())
	require.Equal(t, held(owner.Direct), held(reader))
	require.Regexp(t, "^"+fine, servertest.Try(reader, both))
	require.Contains(t, servertest.Try(reader, strings.Replace(both, "peek", "charge", 1)), "MOVED")

	page.NeedRedisCLI(t)
	look := page.Shell(t, t.TempDir(), owner.Port, page.Marked(t, operationsPage, "failover"))
	require.Regexp(t, `(?s)^cluster_state:ok.* myself,master .*funnel_commit:.*user default on`, look)
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 and Redis 8.4 migrate slots
// themselves, Valkey only if every module agrees. Under load, slots of one primary go to the
// other and back: nothing is lost, and nothing is granted twice.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
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
