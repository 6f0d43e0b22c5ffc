// The module costs a server's process next to no memory.

package process_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestMemoryOfTheProcessIsAsWithoutTheModule, but for the file itself: the medians of
// several servers side by side, because the memory of one varies.
func TestMemoryOfTheProcessIsAsWithoutTheModule(t *testing.T) {
	t.Parallel()
	started := func(module string, words ...string) (servers []*servertest.Server) {
		for range servertest.QuickOrLong(3, 9) {
			server := servertest.Start(t, servertest.Options{Module: module})
			if servertest.Emulated(t, server) {
				t.Skip("the emulator keeps what it has translated")
			}
			require.NoError(t, servertest.CallMany(server.Wire(t), 1000,
				func(int) []string { return words }, func(int, any) error { return nil }))
			servers = append(servers, server)
		}
		return servers
	}
	median := func(servers []*servertest.Server, kind string) int64 {
		var sizes []int64
		for _, server := range servers {
			sizes = append(sizes, servertest.MemoryOf(t, server, kind)>>10)
		}
		slices.Sort(sizes)
		return sizes[len(sizes)/2]
	}
	with := started(servertest.Module(t), "cl.throttle", "key", "1000000", "1", "1000")
	without := started("", "set", "key", "1700000000000000000", "px", "1000000")
	for kind, most := range map[string]int64{"RssAnon": 200, "VmRSS": 700} { // KB
		servertest.Await(t, 100*time.Millisecond, "the memory is as without the module", func() error {
			if got, want := median(with, kind), median(without, kind); got > want+most {
				return fmt.Errorf("%s is %d KB with the module, and %d KB without", kind, got, want)
			}
			return nil
		})
	}
}
