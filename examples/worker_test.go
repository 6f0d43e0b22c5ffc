// Workers in several processes share a limit, and lose no job.

package examples_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// mailsSent returns how many mails a worker has sent so far.
func mailsSent(t *testing.T, p *process) (mails int) {
	line := regexp.MustCompile(`job \d+: (\d+) of \d+ mails`)
	for _, match := range line.FindAllStringSubmatch(printed(t, p.stdout), -1) {
		sent, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		mails += sent
	}
	return mails
}

// Two processes with three workers each send 25 mails: 8 at once, and 4 a second. Here by script.
func TestWorkersShareALimit(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	began := time.Now()
	first := start(t, "worker", server, "-add", "3", "-name", "first")   // jobs of 1, 6 and 11 mails
	second := start(t, "worker", server, "-add", "2", "-name", "second") // of 1 and 6
	servertest.Eventually(t, "all mails are sent", func() bool { return mailsSent(t, first)+mailsSent(t, second) == 25 })
	require.GreaterOrEqual(t, time.Since(began), (25-8)*time.Second/4)
	servertest.Eventually(t, "all jobs are finished", func() bool {
		return server.Client(t).Exists(t.Context(), "example:mails", "example:mails:first", "example:mails:second").Val() == 0
	})
	first.interrupt(t)
	second.interrupt(t)
}

// Ctrl-C ends workers that wait for their turns, and would for hours. Their jobs go back to the
// queue.
func TestWorkersPutJobsBack(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	servertest.Call(t, client, "cl.reserve example:mails:sent 8 4 1 8")
	p := start(t, "worker", server, "-add", "5", "-name", "p")
	servertest.Eventually(t, "three workers wait for their turns", func() bool {
		return servertest.InfoField(t, client, "funnel", "funnel_allowed") == 1+3
	})
	require.EqualValues(t, 3, client.LLen(t.Context(), "example:mails:p").Val())
	p.interrupt(t)
	require.EqualValues(t, 5, client.LLen(t.Context(), "example:mails").Val())
	require.EqualValues(t, 0, client.LLen(t.Context(), "example:mails:p").Val())
}

// After a crash, a process of the same name does the jobs that had been begun.
func TestWorkersAfterACrash(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	require.NoError(t, client.RPush(t.Context(), "example:mails:p", `{"ID":"1","Mails":2}`).Err())
	p := start(t, "worker", server, "-name", "p")
	servertest.Eventually(t, "its mails are sent", func() bool { return mailsSent(t, p) == 2 })
	servertest.Eventually(t, "the job is finished", func() bool {
		return client.Exists(t.Context(), "example:mails", "example:mails:p").Val() == 0
	})
	p.interrupt(t)
}

// Workers wait while Redis is down, and go on when it is back. A job that Redis moved just before
// it died, and whose answer was lost, stays with the process: it is done when the process is
// started again.
func TestWorkersWaitForRedis(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.WithLog("", "always"))
	client := server.Client(t)
	p := start(t, "worker", server, "-name", "p", "-add", "4") // jobs of 1, 6, 11 and 3 mails
	servertest.Eventually(t, "the first mails are sent", func() bool { return mailsSent(t, p) > 0 })
	server.Kill()
	p.find(t, "policy closed")
	before := mailsSent(t, p)
	require.Less(t, before, 21)
	server.Restart(t)
	servertest.Eventually(t, "all mails are sent, but for a job that stays", func() bool {
		stays := 0
		for _, text := range client.LRange(t.Context(), "example:mails:p", 0, -1).Val() {
			var job struct{ Mails int }
			require.NoError(t, json.Unmarshal([]byte(text), &job))
			stays += job.Mails
		}
		return mailsSent(t, p) > before && mailsSent(t, p)+stays >= 21 && client.LLen(t.Context(), "example:mails").Val() == 0
	})
	p.interrupt(t)
}
