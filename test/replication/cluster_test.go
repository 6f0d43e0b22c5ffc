// In a cluster, the keys of a call are in one slot, and move with the slot: no token is lost, and none is
// granted twice.

package replication_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

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
