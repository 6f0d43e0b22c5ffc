// In a cluster, the funnels of a call are in one slot, and move with it; no token is lost, and none
// is granted twice.

package replication_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// startCluster starts two primaries. No node is given up only because the machine is busy.
func startCluster(t *testing.T, config ...string) *servertest.Cluster {
	return servertest.StartCluster(t, 2, time.Minute, servertest.Options{Module: servertest.Module(t), Config: config})
}

// TestClusterFunnelsHaveSlots, as any key has: those of one call are in one slot, which hash
// tags see to, and stay together while the slot moves. A replica can be peeked at.
func TestClusterFunnelsHaveSlots(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	ctx := t.Context()
	slot := cluster.Slot(t, "{u}")
	from, to, replica := cluster.Primaries[0], cluster.Primaries[1], cluster.Replicas[0]
	if cluster.Owner(slot) != from {
		from, to, replica = to, from, cluster.Replicas[1]
	}
	// requireAll requires that the reply of each command to a call of these keys begins so.
	requireAll := func(client servertest.Commander, keys, want string, before ...any) {
		for _, command := range contract.Commands {
			if command.Rows == 1 && strings.Contains(keys, " ") {
				continue
			}
			if before != nil {
				require.NoError(t, client.Do(ctx, before...).Err())
			}
			line := command.Name + strings.ReplaceAll(" "+keys+" ", "} ", "} 9 1 10000 1 ")
			require.Regexp(t, "^"+want, servertest.Try(client, line), line)
		}
	}
	const fine, both = "0 ", "cl.peek 1{u} 9 1 10000 1 2{u} 9 1 10000 1"
	held := func(client servertest.Commander) string { return servertest.Call(t, client, "mget 1{u} 2{u}") }
	requireAll(from.Direct, "1{u} 2{u} 1{v}", "CROSSSLOT")
	requireAll(to.Direct, "1{u} 2{u}", fmt.Sprintf("MOVED %d %s", slot, from.Addr()))
	requireAll(cluster.Client(t), "1{u} 2{u}", fine)

	reader, asking := replica.Direct.Conn(), to.Direct.Conn()
	defer reader.Close()
	defer asking.Close()
	servertest.AwaitReplicas(t, from.Direct, replica.Direct)
	require.NoError(t, reader.ReadOnly(ctx).Err())
	require.Equal(t, held(from.Direct), held(reader))
	require.Regexp(t, "^"+fine, servertest.Try(reader, both))
	require.Contains(t, servertest.Try(reader, strings.Replace(both, "peek", "charge", 1)), "MOVED")

	move := servertest.Move{Cluster: cluster, Slot: slot, From: from, To: to}
	move.Begin(t)
	requireAll(from.Direct, "8{u} 9{u}", "ASK")      // neither is here
	requireAll(from.Direct, "1{u} 9{u}", "TRYAGAIN") // one is
	before := held(from.Direct)
	move.MoveKeys(t)
	require.NoError(t, asking.Do(ctx, "asking").Err())
	require.Equal(t, before, held(asking))
	requireAll(asking, "1{u} 2{u}", fine, "asking")
	move.End(t)
	requireAll(cluster.Client(t), "1{u} 2{u}", fine)
}

// TestClusterSlotsMigrateAtomicallyWhileInUse: Valkey 9 and Redis 8.4 migrate slots
// themselves, Valkey only if every module agrees. Under load, slots of one primary go to the
// other and back: nothing is lost, and nothing is granted twice.
func TestClusterSlotsMigrateAtomicallyWhileInUse(t *testing.T) {
	t.Parallel()
	known, err := servertest.Start(t, servertest.Options{}).Client(t).
		Do(t.Context(), "command", "info", "cluster|migrateslots", "cluster|migration").Slice()
	require.NoError(t, err)
	if known[0] == nil && known[1] == nil {
		t.Skip("this server carries slots key by key only")
	}
	cluster := startCluster(t, "--cluster-allow-replica-migration", "no") // a primary without slots stays one
	client := cluster.Client(t, func(options *redis.ClusterOptions) {     // follows slots that move again and again
		options.MaxRedirects, options.MinRetryBackoff = 16, -1
	})
	load := &load{}
	load.start(t, client)
	from, to := 0, 1
	for range servertest.QuickOrLong(4, 40) {
		load.goOn(t, 500)
		before := load.granted()
		if known[0] != nil {
			cluster.MigrateAll(t, cluster.Primaries[from], cluster.Primaries[to])
		} else {
			cluster.Import(t, 8000, cluster.Primaries[to])
		}
		require.NotEqual(t, before, load.granted(), "calls while slots were carried")
		from, to = to, from // which has none at all from the first time on, in Valkey
	}
	load.stop()
	require.Zero(t, load.failed)
	require.Zero(t, load.audit(t, client))
}
