// Testdata/valkey92.c adds to any server what Valkey 9.2 adds to the API.

package process_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// startAsValkey92 starts a server that knows these options of modules, or, if they are "none",
// cannot say which.
func startAsValkey92(t *testing.T, options string) *servertest.Server {
	standin := servertest.CompileModule(t, "testdata/valkey92.c", "-DMODULE=\""+servertest.Module(t)+"\"")
	arguments := []string{options}
	if options == "none" {
		arguments = nil
	}
	return servertest.Start(t, servertest.Options{Module: standin, ModuleArguments: arguments})
}

// TestOptionsOfModules: the module declares what Valkey would otherwise refuse while the module is
// loaded, migrations of slots (32) and saves without a fork (64), and declares neither to a server
// that does not know it.
func TestOptionsOfModules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		known    string
		declared int
	}{
		{"none", 2 + 4},
		{"31", 2 + 4},
		{"63", 2 + 4 + 32},
		{"127", 2 + 4 + 32 + 64},
		{"255", 2 + 4 + 32 + 64},
	} {
		log := startAsValkey92(t, c.known).Log()
		require.Contains(t, log, fmt.Sprintf("<funnel> options %d\n", c.declared), "the server knows %s", c.known)
		require.Contains(t, log, " loaded, compat none\n", "the server knows %s", c.known)
	}
}

// TestKeyThatTheServerHasInUse: a server that saves without a fork may not open a key for writing.
// Then the whole call is an error, whichever row has the key, and nothing is written. CL.PEEK still
// reads the key.
func TestKeyThatTheServerHasInUse(t *testing.T) {
	t.Parallel()
	const inUse = "the server has the key in use, as for a save without a fork: ask again in a moment"
	client := startAsValkey92(t, "127").Client(t)
	ctx := t.Context()
	for _, line := range []string{
		"rpush list x",
		"set saving:f 4102444800000000000",
		"set saving:q used:2",
		"zadd saving:s 4102444800000 h",
		"cl.charge free 9 1 1000000 2",
		"cl.reserve busy 2 SLOTS 1000000 here",
	} {
		servertest.Call(t, client, line)
	}
	before := servertest.Dumps(t, client)
	changes := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
	calls := []struct{ call, reply string }{
		{"cl.throttle saving:f 9 1 1", "TRYAGAIN " + inUse},
		{"cl.throttle saving:new 9 1 1 0", "TRYAGAIN " + inUse},
		{"cl.take saving:f 9 1 1 1", "TRYAGAIN " + inUse},
		{"cl.refund saving:f 9 1 1 1", "TRYAGAIN " + inUse},
		{"cl.take saving:q 9 UNTIL 4102444800 1", "TRYAGAIN " + inUse},
		{"cl.refund saving:s 9 SLOTS 1 h", "TRYAGAIN " + inUse},
		{"cl.reserve free 9 1 1000000 1 busy 2 SLOTS 9 b saving:f 9 1 1 1", "TRYAGAIN row 3: " + inUse},
		{"cl.reserve saving:s 2 SLOTS 9 h free 9 1 1000000 1", "TRYAGAIN row 1: " + inUse},
		{"cl.charge free 9 1 1000000 1 saving:q 9 UNTIL 4102444800 1 busy 2 SLOTS 9 b", "TRYAGAIN row 2: " + inUse},
		{"cl.charge saving:new 9 UNTIL 4102444800 1 free 9 1 1000000 1", "TRYAGAIN row 1: " + inUse},

		// It comes in the place of the key's type and value, from the left.
		{"cl.charge list 9 1 1 1 saving:f 9 1 1 1", "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"cl.charge saving:f 9 1 1 1 list 9 1 1 1", "TRYAGAIN row 1: " + inUse},
		{"cl.charge saving:f 9 1 1 1 free 9 UNTIL 1 1", "ENDED row 2: "},
	}
	for _, c := range calls {
		require.Contains(t, servertest.Try(client, c.call), c.reply, c.call)
		require.Equal(t, before, servertest.Dumps(t, client), c.call)
	}
	require.EqualValues(t, len(calls), servertest.InfoField(t, client, "funnel", "funnel_errors"))
	require.Equal(t, changes, servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"))

	require.Contains(t, servertest.Call(t, client, "cl.peek saving:q 9 UNTIL 4102444800 1"), "0 0 [0 9 7 0 ")
	require.Equal(t, "0 0 [0 9 9 0 0]", servertest.Call(t, client, "cl.peek saving:new 9 1 1 1"))
	require.NoError(t, client.Rename(ctx, "saving:q", "saved").Err())
	require.Contains(t, servertest.Call(t, client, "cl.take saved 9 UNTIL 4102444800 1"), "0 0 [0 9 6 0 ")
}
