// Servers that are killed and started again hold what was safe on disk.

package replication_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestRestartedServersHoldTheirFunnels: servers are killed under load. What was safe is
// there again, even if the server that reads it has no module yet, and calls go on from there.
func TestRestartedServersHoldTheirFunnels(t *testing.T) {
	appendOnly := []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"}
	for _, c := range []struct {
		name   string
		config []string
		save   string // before the kill
	}{
		{"AOF", appendOnly, ""},
		{"AOF rewritten as commands", append(appendOnly, "--aof-use-rdb-preamble", "no"), "bgrewriteaof"},
		{"RDB", []string{"--save", "3600 1"}, "bgsave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			load := &load{}
			// The server notices at once that a child has ended.
			config := append([]string{"--hz", "100"}, c.config...)
			server := servertest.Start(t, servertest.Options{Module: servertest.Module(t), Config: config})
			client := server.Client(t)
			load.start(t, client)
			load.goOn(t, 500)
			granted := load.granted()
			if c.save != "" {
				require.NoError(t, client.Do(t.Context(), c.save).Err())
				saved := func() bool { return !strings.Contains(client.Info(t.Context(), "persistence").Val(), "in_progress:1") }
				servertest.Eventually(t, "the data is saved", saved)
				require.NotContains(t, client.Info(t.Context(), "persistence").Val(), "status:err")
			}
			load.goOn(t, 500)
			server.Kill()
			load.stop()
			if c.name != "RDB" {
				granted = load.granted()
			}
			load.keep(granted)

			server.Reconfigure(func(options *servertest.Options) { options.Module = "" })
			server.Restart(t)
			servertest.RequireError(t, client, "ERR unknown command", "key", 1, 1, 1)
			bare := servertest.Dumps(t, client)
			require.NoError(t, client.Do(t.Context(), "module", "load", servertest.Module(t)).Err())
			require.Equal(t, bare, servertest.Dumps(t, client))
			load.audit(t, client)
			load.start(t, client)
			load.goOn(t, 500)
			load.stop()
			require.Zero(t, load.audit(t, client))
		})
	}
}
