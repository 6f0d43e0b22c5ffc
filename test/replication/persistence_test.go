// A server that is killed and started again holds what was safe on disk.

package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestRestartedServersHoldTheirFunnels: a server is killed under load. What it has granted is
// there again, even if the server that reads it has no module yet, and calls go on from there.
// The fuzzer of test/model compares what a server reads from an RDB, and from a log, with the contract.
func TestRestartedServersHoldTheirFunnels(t *testing.T) {
	t.Parallel()
	load := &load{}
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t), Config: []string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
	}})
	client := server.Client(t)
	load.start(t, client)
	load.goOn(t, 1000)
	server.Kill()
	load.stop()
	load.keep(load.granted())

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
}
