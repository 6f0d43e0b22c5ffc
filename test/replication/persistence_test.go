package replication_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
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
		save   func(t *testing.T, client *redis.Client) // shortly before the kill
	}{
		{"AOF", appendOnly, nil},
		{"AOF rewritten as RDB", append(appendOnly, "--aof-use-rdb-preamble", "yes"), rewriteAppendOnlyFile},
		{"AOF rewritten as commands", append(appendOnly, "--aof-use-rdb-preamble", "no"), rewriteAppendOnlyFile},
		{"AOF killed while it is rewritten", appendOnly, func(t *testing.T, client *redis.Client) {
			require.NoError(t, client.ConfigSet(context.Background(), "rdb-key-save-delay", "1000").Err())
			require.NoError(t, client.BgRewriteAOF(context.Background()).Err())
			require.EqualValues(t, 1, servertest.InfoField(t, client, "persistence", "aof_rewrite_in_progress"))
		}},
		{"RDB", []string{"--save", "3600", "1"}, func(t *testing.T, client *redis.Client) {
			require.NoError(t, client.BgSave(context.Background()).Err())
			awaitChild(t, client, "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ledger := openLedger(mixedFunnels("funnel:", 3000))
			// A server that notices at once that a child has ended, and saves when told to.
			server := startServer(t, servertest.Module(t), []string{"--hz", "100", "--auto-aof-rewrite-percentage", "0"}, c.config)
			ledger.answersSurvive(c.name != "RDB")
			for range servertest.QuickOrLong(1, 8) {
				load := startLoad(t, ledger, server.Client(t))
				load.goOn(t, 5000)
				answered := ledger.answered()
				if c.save != nil {
					c.save(t, server.Client(t))
				}
				ledger.keep(answered)
				load.goOn(t, 2000)
				server.Kill()
				load.stopDespiteFailures(t)

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

func rewriteAppendOnlyFile(t *testing.T, client *redis.Client) {
	t.Helper()
	require.NoError(t, client.BgRewriteAOF(context.Background()).Err())
	awaitChild(t, client, "aof_rewrite_in_progress", "aof_last_bgrewrite_status")
}

// awaitChild waits until the child that saves data has ended, and requires that it has
// ended well.
func awaitChild(t testing.TB, client *redis.Client, inProgress, status string) {
	t.Helper()
	servertest.Eventually(t, "the child ends", func() bool { return servertest.InfoField(t, client, "persistence", inProgress) == 0 })
	require.Contains(t, client.Info(context.Background(), "persistence").Val(), status+":ok")
}
