package process_test

import (
	"errors"
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
	commands := map[string][]string{
		servertest.Module(t): {"cl.throttle", "key", "1000000", "1", "1000"},
		"":                   {"set", "key", "1700000000000000000", "px", "1000000"},
	}
	servers := map[string][]*servertest.Server{}
	for range servertest.QuickOrLong(3, 9) {
		for module, command := range commands {
			server := servertest.Start(t, servertest.Options{Module: module})
			if servertest.Emulated(t, server) {
				t.Skip("the emulator keeps what it has translated")
			}
			require.NoError(t, servertest.CallMany(server.Wire(t), 1000,
				func(int) []string { return command }, func(int, any) error { return nil }))
			servers[module] = append(servers[module], server)
		}
	}
	median := func(module, kind string) int64 {
		var sizes []int64
		for _, server := range servers[module] {
			sizes = append(sizes, servertest.MemoryOf(t, server, kind))
		}
		slices.Sort(sizes)
		return sizes[len(sizes)/2]
	}
	for kind, most := range map[string]int64{"RssAnon": 200 << 10, "VmRSS": 700 << 10} {
		var figures string
		servertest.Await(t, 100*time.Millisecond, "the memory is as without the module", func() error {
			with, without := median(servertest.Module(t), kind), median("", kind)
			figures = fmt.Sprintf("%s is %d KB with the module, and %d KB without", kind, with>>10, without>>10)
			if with > without+most {
				return errors.New(figures)
			}
			return nil
		})
		t.Log(figures)
	}
}
