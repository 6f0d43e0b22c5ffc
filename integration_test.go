// Package funnel_test shows what the module does: every command, through a real server, with
// go-redis. Read this first. It is a tour that shows each command in its typical use. test/command
// tests the edges, test/replication tests replicas and files, and test/model compares random calls,
// also of many clients at once, with the contract.
package funnel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// tour has a transcript of each command. A line that begins with > is a command, and the next line
// is its reply. The reply of CL.THROTTLE has whole seconds:
//
//	limited limit remaining retry_after reset_after
//
// The replies of the other commands have exact seconds, and a row for each funnel. A row of which
// tokens were taken ends with a receipt, shown here as the time after the transcript began. CL.TAKE
// adds how many tokens were taken:
//
//	limited wait [limited limit remaining wait reset_after tat] ... taken
//
// The clock stands still.
var tour = map[string]string{
	"limit a rate: 15 in a row, and 30 in 60 seconds": `
		> cl.throttle user:42 15 30 60
		0 15 14 -1 2
		> cl.throttle user:42 15 30 60 14
		0 15 0 -1 30
		> cl.throttle user:42 15 30 60
		1 15 0 2 30`,

	"limit by second and by hour: all funnels, or none": `
		> cl.reserve {u42}:s 1 2 1 1 {u42}:h 3 3 3600 1
		0 0 [0 1 0 0 0.5 500ms] [0 3 2 0 1200 20m0s]
		> cl.reserve {u42}:s 1 2 1 1 {u42}:h 3 3 3600 1
		1 0.5 [1 1 0 0.5 0.5] [0 3 2 0 1200]`,

	"wait: ask once, sleep once, and go ahead in the order of asking": `
		> cl.reserve mails 1 4 1 1 60
		0 0 [0 1 0 0 0.25 250ms]
		> cl.reserve mails 1 4 1 1 60
		0 0.25 [0 1 0 0.25 0.5 500ms]`,

	"take as many tokens as fit, and ask for the rest after the wait": `
		> cl.take rows 10 1 1 12
		1 1 [1 10 0 1 10 10s] 10`,

	"settle the cost of a call: reserve an estimate, then charge or refund the difference": `
		> cl.reserve tokens 3000 500 1 2000
		0 0 [0 3000 1000 0 4 4s]
		> cl.charge tokens 3000 500 1 1500
		1 1 [1 3000 0 1 7 7s]
		> cl.refund tokens 3000 500 1 700
		0 0 [0 3000 200 0 5.6]`,

	"allow five tries in 15 minutes from the first try, and tell when these end": `
		> cl.reserve login:42 5 UNTIL +900 5
		0 0 [0 5 0 0 900 4102445700]
		> cl.reserve login:42 5 UNTIL +900 1
		1 900 [1 5 0 900 900]`,

	"look without taking": `
		> cl.peek user:1 3 1 1 1 user:2 3 1 1 4
		1 -1 [0 3 3 0 0] [1 3 3 -1 0]
		> dbsize
		0`,
}

func TestTour(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	for name, transcript := range tour {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			for pair := range slices.Chunk(strings.Split(strings.TrimSpace(transcript), "\n"), 2) {
				command := strings.TrimPrefix(strings.TrimSpace(pair[0]), "> ")
				reply := strings.TrimSpace(pair[1])
				require.Equal(t, reply, servertest.Try(client, command), command)
			}
		})
	}
}
