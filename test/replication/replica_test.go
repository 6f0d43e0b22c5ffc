// A replica answers peeks while it loads.

package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestReplicaServesItsFunnelsUntilItHasTheNewOnes: when it is too far behind, it loads all
// of them anew, and with repl-diskless-load swapdb it answers from the old ones meanwhile.
// Servers allow that only when every module agrees.
func TestReplicaServesItsFunnelsUntilItHasTheNewOnes(t *testing.T) {
	servertest.NeedSince7(t, "replicas that answer while they load")
	t.Parallel()
	load := &load{}
	primary := servertest.Start(t, withModule(t, "--repl-diskless-sync", "yes", "--repl-backlog-size", "16kb"))
	// A server that loads serves its clients every so many bytes: by default, every few
	// megabytes, which is more than the funnels.
	replica := servertest.StartReplica(t, primary, withModule(t, "--loading-process-events-interval-bytes", "1024"))
	client, replicaClient := primary.Client(t), replica.Client(t)
	require.NoError(t, client.Do(t.Context(), "debug", "populate", 10_000, "other", 100).Err(), "keys that make the copy last")

	load.start(t, client)
	load.goOn(t, 500)
	servertest.AwaitReplicas(t, client, replicaClient)
	replicate(t, replica, 1)
	offset := replicationOffset(t, client)
	servertest.Eventually(t, "the backlog has gone round", func() bool { return replicationOffset(t, client) > offset+1<<17 })
	require.NoError(t, client.ConfigSet(t.Context(), "rdb-key-save-delay", "20").Err()) // microseconds
	replicate(t, replica, primary.Port)
	loads := func() bool { return servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1 }
	servertest.Eventually(t, "the replica loads beside its funnels", loads)
	require.NoError(t, replicaClient.Do(t.Context(), callOf("cl.peek", 0)...).Err())
	require.True(t, loads(), "that was too late")
	awaitAttached(t, replica)
	load.stop()

	servertest.AwaitReplicas(t, client, replicaClient)
	require.Zero(t, load.audit(t, client))
	require.Equal(t, heldBy(t, client), heldBy(t, replicaClient), "the replica")
}
