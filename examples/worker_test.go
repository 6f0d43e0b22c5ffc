package examples_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// By any number of workers, in one process or two, each job is done once, and all of
// them together no faster than the limit: 4 at once, and 4 a second. Here by script.
func TestWorkersShareALimit(t *testing.T) {
	t.Parallel()
	server, began := servertest.Start(t, servertest.Options{}), time.Now()
	line := regexp.MustCompile(`(?m)^ *\d+\.\ds worker [1-3]: job (\d+)$`)
	var processes []*process
	for range 2 {
		processes = append(processes, start(t, "worker", server, "-jobs", "5", "-workers", "3"))
	}
	for _, process := range processes {
		output, err := process.wait(t)
		require.NoError(t, err)
		var done []string
		for _, match := range line.FindAllStringSubmatch(output, -1) {
			done = append(done, match[1])
		}
		require.ElementsMatch(t, []string{"1", "2", "3", "4", "5"}, done, output)
		require.True(t, strings.HasSuffix(output, "5 of 5 jobs done\n"), output)
	}
	// The first 4 of all 10 are allowed at once, the others need a quarter of a second each.
	require.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
}

// Ctrl-C ends workers that sleep, and would for an hour and more.
func TestWorkersEndOnInterrupt(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	rdb := server.Client(t)
	servertest.Throttle(t, rdb, "example:mails", 4, 1, 3600, 4)
	process := start(t, "worker", server)
	servertest.Eventually(t, "workers wait for their turns", func() bool {
		return servertest.InfoField(t, rdb, "funnel", "funnel_allowed") >= 4
	})
	require.Equal(t, "0 of 12 jobs done\n", process.interrupt(t))
}
