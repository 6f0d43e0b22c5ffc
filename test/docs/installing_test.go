package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

const installing = "docs/installing.md"

// installed are lines of the page, with a folder of the test in the place of /usr/local.
func installed(t *testing.T, prefix, name string) string {
	t.Helper()
	text := marked(t, installing, name)
	require.Contains(t, text, "/usr/local/")
	return strings.ReplaceAll(text, "/usr/local", prefix)
}

// TestInstalling follows the page from a new clone to the first call.
func TestInstalling(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	clone, prefix := page.Clone(t, top), t.TempDir()
	page.Shell(t, clone, 0, marked(t, installing, "install, build"))
	for range 2 { // the second time over the first
		page.Shell(t, clone, 0, installed(t, prefix, "install, put"))
	}
	for line, want := range map[string]string{"install, load": "0\n15\n14\n-1\n2\n", "install, compat": "0\n16\n15\n-1\n2\n"} {
		server := servertest.Start(t, page.WithModule(t, installed(t, prefix, line)))
		require.Equal(t, want, page.Shell(t, clone, server.Port, marked(t, installing, "install, ask")))
		require.Contains(t, server.Log(), "loaded")
	}
	line := strings.ReplaceAll(marked(t, "docs/moving-from-redis-cell.md", "compat"), "/usr/local", prefix)
	require.Equal(t, installed(t, prefix, "install, compat"), line)
}

// TestUpgrading follows the page with a primary and a replica, there and back: the funnel
// stays as it is, and whoever asks meets the command. The new version is the one that has
// FUNNEL.DEBUG.
func TestUpgrading(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	servertest.NeedSince7(t, "fails over by FAILOVER to a replica of its choice")
	ctx, prefix := context.Background(), t.TempDir()
	place := filepath.Join(prefix, "lib/redis")
	require.NoError(t, os.MkdirAll(place, 0o755))
	old, err := os.ReadFile(servertest.Module(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(place, "funnel.so"), old, 0o755))
	next, err := os.ReadFile(servertest.DebugModule(t))
	require.NoError(t, err)
	downloads := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(downloads, "funnel.so"), next, 0o644))

	options := servertest.Options{Module: filepath.Join(place, "funnel.so")}
	primary := servertest.Start(t, options)
	replica := servertest.StartReplica(t, primary, options)
	charge := servertest.Words("cl.charge user:42 15 30 3600 7")
	require.NoError(t, primary.Client(t).Do(ctx, charge...).Err())
	tat := primary.Client(t).Get(ctx, "user:42").Val()

	// restartAndFailOver is steps 3 to 5.
	restartAndFailOver := func() {
		for range 2 {
			servertest.AwaitReplicas(t, primary.Client(t), replica.Client(t))
			replica.Stop()
			replica.Restart(t)
			require.NoError(t, replica.Client(t).ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(primary.Port)).Err())
			servertest.AwaitReplicas(t, primary.Client(t), replica.Client(t))
			require.NoError(t, primary.Client(t).Do(ctx, "failover").Err())
			servertest.Eventually(t, "the replica is the primary", func() bool {
				return strings.Contains(replica.Client(t).Info(ctx, "replication").Val(), "role:master")
			})
			primary, replica = replica, primary
			require.Equal(t, tat, primary.Client(t).Get(ctx, "user:42").Val())
			require.Contains(t, servertest.Funnels(t, primary.Client(t), "cl.peek user:42 15 30 3600 1"), "0 0 [0 15 8 ")
		}
	}
	requireVersion := func(next bool) {
		for _, server := range []*servertest.Server{primary, replica} {
			require.Equal(t, !next, strings.Contains(fmt.Sprint(debug(server.Client(t))), "unknown command"))
		}
	}

	page.Shell(t, downloads, 0, installed(t, prefix, "upgrade, put"))
	requireVersion(false)
	see := installed(t, prefix, "upgrade, see")
	require.Equal(t, 1, strings.Count(see, "7379"))
	see = strings.ReplaceAll(strings.ReplaceAll(see, "redis-server", servertest.Program()), "7379", fmt.Sprint(servertest.FreePort(t)))
	require.Regexp(t, "funnel .* loaded", page.Shell(t, downloads, 0, see))
	restartAndFailOver()
	requireVersion(true)

	page.Shell(t, downloads, 0, installed(t, prefix, "upgrade, back"))
	restartAndFailOver()
	requireVersion(false)
	back, err := os.ReadFile(filepath.Join(place, "funnel.so"))
	require.NoError(t, err)
	require.Equal(t, old, back)
}

// debug is the reply to a command that only the new version has.
func debug(client *redis.Client) error { return client.Do(context.Background(), "funnel.debug").Err() }
