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
	t.Helper()
	return servertest.StartCluster(t, 2, time.Minute, servertest.Options{Module: servertest.Module(t), Config: config})
}

// TestClusterFunnelsHaveSlots, as any key has: those of one call are in one slot, which hash
// tags see to, and stay together while the slot moves. A replica can be peeked at.
func TestClusterFunnelsHaveSlots(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	ctx, client := t.Context(), cluster.Client(t)
	slot := cluster.Slot(t, "{u}")
	from, to, replica := cluster.Primaries[0], cluster.Primaries[1], cluster.Replicas[0]
	if cluster.Owner(slot) != from {
		from, to, replica = to, from, cluster.Replicas[1]
	}
	line := func(command, keys string) string {
		return command + strings.ReplaceAll(" "+keys+" ", "} ", fmt.Sprintf("} 9 1 %d 1 ", servertest.StillPeriod))
	}
	// reply requires that each command replies that error, or none.
	reply := func(client servertest.Commander, keys, want string, before ...any) {
		t.Helper()
		for _, command := range contract.Commands {
			if command.Funnels == 1 && strings.Contains(keys, " ") {
				continue
			}
			if before != nil {
				require.NoError(t, client.Do(ctx, before...).Err())
			}
			got := "no error"
			if err := client.Do(ctx, servertest.ToAny(strings.Fields(line(command.Name, keys)))...).Err(); err != nil {
				got = err.Error()
			}
			require.True(t, strings.HasPrefix(got, want), "%s: %s, not %s", line(command.Name, keys), got, want)
		}
	}
	held := func(client servertest.Commander) string {
		return servertest.WithoutTimes(servertest.Call(t, client, line("cl.peek", "1{u} 2{u}")))
	}
	moved := fmt.Sprintf("MOVED %d %s", slot, from.Addr())
	reply(from.Direct, "1{u} 2{u} 1{v}", "CROSSSLOT")
	reply(to.Direct, "1{u}", moved)
	reply(to.Direct, "1{u} 2{u}", moved)
	reply(client, "1{u} 2{u}", "no error")
	for _, command := range contract.Commands {
		if command.LastWord != "" {
			require.NoError(t, from.Direct.Do(ctx, servertest.Words(line(command.Name, "1{u}")+" 0")...).Err(), "%s is no key", command.LastWord)
		}
	}
	const both = `return redis.call('cl.charge', KEYS[1], 9, 1, 1, 1, KEYS[2], 9, 1, 1, 1)`
	require.NoError(t, client.Eval(ctx, both, []string{"3{u}", "4{u}"}).Err())
	require.ErrorContains(t, from.Direct.Eval(ctx, both, []string{"1{u}", "1{v}"}).Err(), "CROSSSLOT")

	reader, asking := replica.Direct.Conn(), to.Direct.Conn()
	defer reader.Close()
	defer asking.Close()
	servertest.AwaitReplicas(t, from.Direct, replica.Direct)
	reply(reader, "1{u} 2{u}", "MOVED")
	require.NoError(t, reader.ReadOnly(ctx).Err())
	require.Equal(t, held(from.Direct), held(reader))
	require.ErrorContains(t, reader.Do(ctx, servertest.Words(line("cl.reserve", "1{u} 2{u}"))...).Err(), "MOVED")

	move := cluster.Move(slot, from, to)
	move.Begin(t)
	reply(from.Direct, "1{u} 2{u}", "no error") // both are here
	reply(from.Direct, "8{u} 9{u}", "ASK")      // neither is
	reply(from.Direct, "1{u} 9{u}", "TRYAGAIN")
	reply(from.Direct, "9{u} 1{u}", "TRYAGAIN")
	reply(asking, "8{u} 9{u}", "TRYAGAIN", "asking") // none has come
	before := held(from.Direct)
	for move.MoveKeys(t, 10) > 0 {
	}
	require.NoError(t, asking.Do(ctx, "asking").Err())
	require.Equal(t, before, held(asking))
	reply(from.Direct, "1{u} 2{u}", "ASK")
	reply(asking, "1{u} 2{u}", "no error", "asking")
	move.End(t)
	reply(client, "1{u} 2{u}", "no error")
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
	if known[0] != nil {
		servertest.AwaitReplicas(t, cluster.Primaries[from].Direct, cluster.Replicas[from].Direct)
		reader := cluster.Replicas[from].Direct.Conn()
		defer reader.Close()
		require.NoError(t, reader.ReadOnly(t.Context()).Err())
		require.Equal(t, heldBy(t, client), heldBy(t, reader), "the replica")
	}
}
