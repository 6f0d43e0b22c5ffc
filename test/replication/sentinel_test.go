// A primary is replaced on purpose, by Sentinel or in a cluster, with the commands of
// docs/operations.md: no call that was answered is forgotten.

package replication_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// startSentinel starts a Sentinel that watches a primary by the name mymaster, and waits until it
// knows the replica.
func startSentinel(t *testing.T, primary *servertest.Server) *servertest.Server {
	sentinel := servertest.StartSentinel(t, primary, "mymaster")
	client, healthy := sentinel.Client(t), regexp.MustCompile(`master-link-status.ok`)
	servertest.Eventually(t, "the Sentinel knows a replica that it could promote", func() bool {
		return healthy.MatchString(servertest.Try(client, "sentinel replicas mymaster"))
	})
	return sentinel
}

// onPorts runs a block of the page on these servers.
func onPorts(t *testing.T, name string, primary, replica, sentinel *servertest.Server) string {
	page.NeedRedisCLI(t)
	ports := []string{"valkey-cli", "redis-cli", "6379", fmt.Sprint(primary.Port), "6380", fmt.Sprint(replica.Port)}
	if sentinel != nil {
		ports = append([]string{"26379", fmt.Sprint(sentinel.Port)}, ports...)
	}
	lines := strings.NewReplacer(ports...).Replace(page.Marked(t, operationsPage, name))
	return page.Shell(t, t.TempDir(), primary.Port, lines)
}

// TestSentinelForgetsNoCall: under load, the new primary holds all tokens that the old one granted.
func TestSentinelForgetsNoCall(t *testing.T) {
	t.Run("in the right order", func(t *testing.T) {
		t.Parallel()
		primary, replica, sentinel, load := underSentinel(t)
		output := onPorts(t, "sentinel", primary, replica, sentinel)
		require.Regexp(t, `(?s)^OK\n.*master_repl_offset:\d+.*\nOK\nOK\nOK\nOK\nrole:slave\s`, output)
		_, file, _ := strings.Cut(primary.Client(t).Info(t.Context(), "server").Val(), "config_file:")
		config, err := os.ReadFile(strings.Fields(file)[0])
		require.NoError(t, err)
		require.Contains(t, string(config), fmt.Sprint("replicaof 127.0.0.1 ", replica.Port), "what a restart would read")
		requireMoved(t, load, primary, replica)
	})
	t.Run("by one command", func(t *testing.T) {
		t.Parallel()
		primary, replica, sentinel, load := underSentinel(t)
		if servertest.Try(sentinel.Client(t), "sentinel failover nobody coordinated") != "ERR No such master with that name" {
			t.Skip("Valkey 9 is the first with SENTINEL FAILOVER ... COORDINATED")
		}
		require.Equal(t, "OK\n", onPorts(t, "coordinated", primary, replica, sentinel))
		servertest.Eventually(t, "the old primary is a replica", func() bool {
			return strings.Contains(primary.Client(t).Info(t.Context(), "replication").Val(), "role:slave")
		})
		requireMoved(t, load, primary, replica)
	})
}

func underSentinel(t *testing.T) (primary, replica, sentinel *servertest.Server, running *load) {
	options := withModule(t)
	file := filepath.Join(t.TempDir(), "redis.conf")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	options.Wrapper = []string{"sh", "-c", `exec "$0" ` + file + ` "$@"`}
	primary = servertest.Start(t, options)
	replica = servertest.StartReplica(t, primary, withModule(t))
	sentinel = startSentinel(t, primary)
	running = &load{}
	running.start(t, primary.Client(t))
	running.goOn(t, 500)
	return primary, replica, sentinel, running
}

// requireMoved requires that the replica is the primary and holds what was granted, and that the
// old primary follows it.
func requireMoved(t *testing.T, load *load, primary, replica *servertest.Server) {
	load.stop()
	require.Error(t, load.failed, "clients of the old primary hear of it")
	require.Equal(t, load.granted[:], heldBy(t, replica.Client(t)))
	awaitAttached(t, primary)
	require.Equal(t, load.granted[:], heldBy(t, primary.Client(t)))
}

// TestNodeIsTakenOut: the replica of a node of a cluster takes over, and forgets no call.
func TestNodeIsTakenOut(t *testing.T) {
	t.Parallel()
	cluster := servertest.StartCluster(t, 1, time.Minute, servertest.Options{Module: servertest.Module(t)})
	client := cluster.Client(t, func(options *redis.ClusterOptions) {
		options.MaxRedirects, options.MinRetryBackoff = 16, -1
	})
	load := &load{}
	load.start(t, client)
	load.goOn(t, 500)
	primary, replica := cluster.Primaries[0].Server, cluster.Replicas[0].Server
	require.Equal(t, "OK\ncluster_state:ok\r\n", onPorts(t, "take a node out", primary, replica, nil))
	load.stop()
	require.Equal(t, load.granted[:], heldBy(t, client))
}
