// The module adds no threads, no signal handlers and hardly any memory to the process, and crash
// reports stay complete.

package process_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// threadsOf returns what the system says about each thread of a server: its name, the pending
// signals of the thread and of the process, and which signals it blocks, ignores and catches.
func threadsOf(t testing.TB, server *servertest.Server) (threads []string) {
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", server.Pid()))
	require.NoError(t, err)
	for _, folder := range folders {
		status := servertest.ProcessStatus(t, strings.TrimPrefix(folder, "/proc/"))
		thread := ""
		for _, field := range strings.Fields("Name SigPnd ShdPnd SigBlk SigIgn SigCgt") {
			require.NotEmpty(t, status[field], field)
			thread += field + " " + status[field] + " "
		}
		threads = append(threads, thread)
	}
	slices.Sort(threads)
	return threads
}

// TestProcessIsAsWithoutTheModule: the process has the same threads and signals as without the
// module. The Go runtime, which would add threads, handlers and masks, never starts.
func TestProcessIsAsWithoutTheModule(t *testing.T) {
	t.Parallel()
	with := servertest.StartModule(t)
	without := servertest.Start(t, servertest.Options{})
	same := func(when string) {
		// The server starts its own threads one after the other, and they name themselves.
		servertest.Await(t, 5*time.Millisecond, "the processes are the same "+when, func() error {
			got, want := threadsOf(t, with), threadsOf(t, without)
			if len(want) == 0 || !slices.Equal(got, want) {
				return fmt.Errorf("with the module\n%q\nwithout\n%q", got, want)
			}
			return nil
		})
	}
	same("after the start")
	client, plain := with.Client(t), without.Client(t)
	for call := range 1000 {
		servertest.Call(t, client, fmt.Sprint("cl.throttle ", call, " 15 30 60"))
		require.Regexp(t, "^INVALID ", servertest.Try(client, fmt.Sprint("cl.throttle ", call, " x 30 60")))
		require.NoError(t, plain.Set(t.Context(), strconv.Itoa(call), 15, time.Minute).Err())
	}
	same("after calls and errors")
}

// TestMemoryOfTheProcessIsAsWithoutTheModule compares the memory of servers with and without the
// module, apart from the file itself. It compares medians, because the memory of a single server
// varies.
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
			got, want := median(with, kind), median(without, kind)
			if got > want+most {
				return fmt.Errorf("%s is %d KB with the module, and %d KB without", kind, got, want)
			}
			return nil
		})
	}
}

// TestCrashReportsAreWhole: the crash report of a server has the same parts as without the module,
// and also INFO of the module.
func TestCrashReportsAreWhole(t *testing.T) {
	t.Parallel()
	report, want := crash(t, servertest.Module(t)), crash(t, "")
	headings := regexp.MustCompile(`(?m)^------ .* ------`)
	require.NotEmpty(t, headings.FindAllString(want, -1))
	require.Equal(t, headings.FindAllString(want, -1), headings.FindAllString(report, -1))
	require.Regexp(t, `<funnel> funnel \d+\.\d+\.\d+(-dev)? \(.+\) loaded, compat none\n`, report)
	require.Regexp(t, `funnel_compat:none\r?\n(?s:.*)funnel_allowed:1`, report, "INFO of the module")
}

// crash makes a server crash, and returns its report. While a server collects the stacks of its
// threads, it may crash again, even without the module (seen on Valkey 9). Then crash tries another
// server.
func crash(t *testing.T, module string) (report string) {
	t.Helper()
	for range 10 {
		// The memory test at the end of the report is off: few servers get through it.
		server := servertest.Start(t,
			servertest.Options{Module: module, Config: []string{"--save", "", "--crash-memcheck-enabled", "no"}})
		if module != "" {
			servertest.Call(t, server.Client(t), "cl.throttle key 15 30 60")
		}
		_, _ = server.Wire(t).Do("debug", "segfault")
		state, err := server.Wait()
		require.NoError(t, err)
		require.Contains(t, state.String(), "signal: ")
		report = server.Log()
		if strings.Contains(report, "BUG REPORT END") && !strings.Contains(report, "Crashed running signal handler") {
			return report
		}
	}
	t.Fatal("no crash had a whole report")
	return ""
}
