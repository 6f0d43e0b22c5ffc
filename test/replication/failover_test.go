// A promoted replica grants no token again that it knows was taken.

package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestPromotedReplicaGrantsNothingTwice: both replicas lose their links, one after the
// other, before their primary is killed under load. The one that is further is promoted,
// and what it had is still counted; the other one follows it, and has the same at once.
func TestPromotedReplicaGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	load := &load{}
	primary := servertest.Start(t, withModule(t))
	behind, further := servertest.StartReplica(t, primary, withModule(t)), servertest.StartReplica(t, primary, withModule(t))
	load.start(t, primary.Client(t))
	load.goOn(t, 1000)
	replicate(t, behind, 1)
	load.goOn(t, 1000)
	granted := load.granted()
	servertest.AwaitReplicas(t, primary.Client(t), further.Client(t))
	load.keep(granted)
	replicate(t, further, 1)
	load.goOn(t, 1000)
	primary.Kill()
	load.stop()
	promoted, replica := further.Client(t), behind.Client(t)
	require.Greater(t, replicationOffset(t, promoted), replicationOffset(t, replica))

	require.NoError(t, promoted.ReplicaOf(t.Context(), "no", "one").Err())
	require.Positive(t, load.audit(t, promoted), "calls that no replica has: there was something to lose")
	replicate(t, behind, further.Port)
	awaitAttached(t, behind)
	load.start(t, promoted)
	load.goOn(t, 1000)
	load.stop()
	require.Zero(t, load.audit(t, promoted))
	servertest.AwaitReplicas(t, promoted, replica)
	require.Zero(t, load.audit(t, replica))
	require.Equal(t, servertest.Dumps(t, promoted), servertest.Dumps(t, replica))
}
