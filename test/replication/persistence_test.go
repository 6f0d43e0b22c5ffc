package replication_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestRestartedServersHoldTheirFunnels: servers are killed under load, and so are the
// children that save their data. What was safe is there again, and the same whether the
// server that reads it has the module or not.
func TestRestartedServersHoldTheirFunnels(t *testing.T) {
	appendOnly := []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	for _, c := range []struct {
		name   string
		config []string
		save   string // shortly before the kill
	}{
		{"AOF", appendOnly, ""},
		{"AOF rewritten as RDB", append(appendOnly, "--aof-use-rdb-preamble", "yes"), "bgrewriteaof"},
		{"AOF rewritten as commands", append(appendOnly, "--aof-use-rdb-preamble", "no"), "bgrewriteaof"},
		{"AOF killed while it is rewritten", append(appendOnly, "--rdb-key-save-delay", "1000"), "bgrewriteaof"},
		{"RDB", []string{"--save", "3600", "1"}, "bgsave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ledger := openLedger(mixedFunnels("funnel:", 3000))
			ledger.survives = c.name != "RDB"
			// The server notices at once that a child has ended, and saves only when told to.
			server := startServer(t, servertest.Module(t), []string{"--hz", "100", "--auto-aof-rewrite-percentage", "0"}, c.config)
			for range servertest.QuickOrLong(1, 8) {
				client := server.Client(t)
				load := startLoad(t, ledger, client)
				load.goOn(t, 5000)
				answered := ledger.answered()
				if c.save != "" {
					require.NoError(t, client.Do(t.Context(), c.save).Err())
					saves := func() bool { return strings.Contains(client.Info(t.Context(), "persistence").Val(), "in_progress:1") }
					if strings.Contains(c.name, "while") {
						require.True(t, saves())
					} else {
						servertest.Eventually(t, "the data is saved", func() bool { return !saves() })
						require.NotContains(t, client.Info(t.Context(), "persistence").Val(), "status:err")
					}
				}
				ledger.keep(answered)
				load.goOn(t, 2000)
				server.Kill()
				load.end()

				server.Reconfigure(func(options *servertest.Options) { options.Module = "" })
				server.Restart(t)
				servertest.RequireError(t, server.Client(t), "ERR unknown command", "key", 1, 1, 1)
				bare := ledger.read(t, server.Client(t))
				server.Kill()
				server.Reconfigure(func(options *servertest.Options) { options.Module = servertest.Module(t) })
				server.Restart(t)
				ledger.requireSame(t, bare, ledger.read(t, server.Client(t)), "the server with the module")
				lost := ledger.audit(t, server.Client(t))
				if c.name != "RDB" {
					require.Zero(t, lost)
				}
				t.Logf("%+v; %d tokens lost that were not yet safe", ledger.count(), lost)
			}
			load := startLoad(t, ledger, server.Client(t))
			load.goOn(t, 2000)
			load.stop(t)
			ledger.audit(t, server.Client(t))
		})
	}
}
