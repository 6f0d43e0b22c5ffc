// Processes that wait for slots use nearly all slots nearly all the time, ask seldom, and share the slots. Within a
// process, no caller overtakes another one. TestNoMoreThanTheLimitRun kills and stops such processes.

package soak_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// ten are the slots that all processes wait for.
var ten = limiter.Slots{Max: 10, TTL: 2 * time.Second}

// waitInLine is the program of 64 workers who wait in one line.
func waitInLine(addr string) {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: addr}))
	for worker := range 64 {
		go work(l, ten, fmt.Sprint(os.Getpid(), ":", worker))
	}
	select {}
}

func TestLinesShareSlots(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	count := func(field string) int64 { return servertest.InfoField(t, client, "funnel", field) }
	asked := func() int64 { return count("funnel_limited") + count("funnel_allowed") }
	var processes [4]*exec.Cmd
	for i := range processes {
		processes[i] = start(t, "lines", server.Addr())
	}
	servertest.Eventually(t, "work", func() bool { return count("funnel_allowed") > 300 })
	calls, from := -asked(), time.Now().UnixMicro()
	time.Sleep(servertest.QuickOrLong(3*time.Second, 20*time.Second))
	calls, until := calls+asked(), time.Now().UnixMicro()

	var pieces, used, overtaken int64
	var shares [4]float64
	for i, process := range processes {
		var newest int64 // the latest begin of a wait that got a slot
		for line := range strings.Lines(kill(process)) {
			var name string
			var held stretch
			fmt.Sscan(line, &name, &held.from, &held.until, &held.ended)
			began := held.until - ten.TTL.Microseconds()
			switch {
			case held.from < from || held.from >= until:
			case held.ended:
				used += min(held.until, until) - held.from
			default:
				overtaken, newest = max(overtaken, newest-began), max(newest, began)
				shares[i]++
				pieces++
			}
		}
	}
	use, each := float64(used)/float64(10*(until-from)), float64(calls)/float64(pieces)
	t.Logf("%.3f in use; %.2f calls for each of %d slots, of which the processes got %v; overtaken by %d µs",
		use, each, pieces, shares, overtaken)
	require.Less(t, overtaken, int64(250_000), "microseconds by which a caller began to wait later than another one, and was served earlier")
	// The second figures are for a machine that is not busy.
	require.LessOrEqual(t, each, servertest.QuickOrLong(6.0, 3.0))
	require.GreaterOrEqual(t, use, servertest.QuickOrLong(0.5, 0.95))
	for _, share := range shares {
		require.GreaterOrEqual(t, share/float64(pieces), servertest.QuickOrLong(0.05, 0.15))
	}
}
