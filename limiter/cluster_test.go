// In a cluster, module and script share the keys.

package limiter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// First no node has the module, then some nodes, and then all. Clients that read from replicas peek
// at replicas.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx, cluster := t.Context(), servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{})
	load := func(nodes ...*servertest.ClusterNode) func() {
		return func() {
			for _, node := range nodes {
				require.NoError(t, node.Direct.Do(ctx, "module", "load", servertest.Module(t)).Err())
			}
		}
	}
	module, script := limiter.FromModule, limiter.FromScript
	for _, step := range []struct {
		name    string
		prepare func()
		sources []limiter.Source
		peek    string
	}{
		{"none", func() {}, []limiter.Source{script}, "eval"},
		{"one", load(cluster.Primaries[0], cluster.Replicas[0]), []limiter.Source{module, script}, "eval"},
		{"all", load(slices.Concat(cluster.Primaries[1:], cluster.Replicas[1:])...), []limiter.Source{module}, "cl.peek"},
	} {
		step.prepare()
		connect := func() *limiter.Limiter { // a Limiter that has not asked the servers yet
			return limiter.New(cluster.Client(t), limiter.WithTimeout(servertest.Patience))
		}
		for i := range 8 {
			for _, call := range []struct {
				command             string
				quantity, remaining int
			}{{"reserve", 5, 10}, {"charge", 3, 7}, {"refund", 1, 8}, {"peek", 1, 8}, {"take", 20, 0}} {
				key := fmt.Sprint(step.name, i)
				result, err := methods[call.command](connect(), key, call.quantity)
				state := fmt.Sprintf("%s have the module: %s of %d of %s: %+v", step.name, call.command, call.quantity, key, result)
				require.NoError(t, err, state)
				require.Equal(t, call.remaining, result.Remaining, state)
				require.Contains(t, step.sources, result.Source, state)
			}
		}
		a := limiter.Request{"{" + step.name + "}a", fifteenPerDay, 1}
		results, err := connect().AllowAll(ctx, a, limiter.Request{"{" + step.name + "}b", fifteenPerDay, 2})
		require.NoError(t, err)
		require.False(t, results.Limited())
		a.Quantity = 0
		got := tryAcquire(t, connect(), "{"+step.name+"}slots", twoFor3s, a)
		require.Contains(t, step.sources, got.Results[0].Source, step.name)
		require.False(t, got.Limited(), step.name)
		require.NoError(t, got.Release(ctx), step.name)

		if servertest.Since7(t) { // without EVALSHA_RO peeks go to primaries
			requireReplicasToPeek(t, cluster, "{"+step.name+"}a", step.peek)
		}
	}
	requireOneRefundInACluster(t, cluster)
}

func requireReplicasToPeek(t *testing.T, cluster *servertest.Cluster, key, command string) {
	for i, replica := range cluster.Replicas {
		servertest.AwaitReplicas(t, cluster.Primaries[i].Direct, replica.Direct)
		require.NoError(t, replica.Direct.ConfigResetStat(context.Background()).Err())
	}
	// Clients learn of a replica once nodes have heard that it has data.
	servertest.Eventually(t, "a replica is asked", func() bool {
		l := limiter.New(cluster.Client(t, func(options *redis.ClusterOptions) { options.ReadOnly = true }))
		result, err := l.Peek(context.Background(), key, fifteenPerDay)
		require.NoError(t, err)
		require.Equal(t, 14, result.Remaining)
		var commands strings.Builder
		for _, replica := range cluster.Replicas {
			commands.WriteString(replica.Direct.Info(context.Background(), "commandstats").Val())
		}
		return strings.Contains(commands.String(), "cmdstat_"+command)
	})
}
