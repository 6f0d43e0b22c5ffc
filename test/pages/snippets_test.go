// Package pages_test follows the pages. It runs what the READMEs and docs/ show, with the clients
// themselves and against real servers, and checks links and figures. This file runs a snippet, and
// says what a snippet has to do.
package pages_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/pages/page"
)

func clients(t *testing.T) string { return page.Read(t, "../../docs/clients.md") }

func snippet(t *testing.T, name string) string {
	return strings.TrimSuffix(page.Marked(t, "../../docs/clients.md", name), "\n")
}

const key = "user:42"

// rounds is how often a snippet runs in one process: as often as the funnel lets through at once,
// and once more.
const rounds = 16

// quick is the page's limit in a shorter period: a token leaks in half a second, so the last round
// waits for that long, and the funnel drains in 7.5 s.
var quick = limiter.Per(30, 15*time.Second).WithCapacity(15)

// replaced replaces old, which occurs once in the snippet, by new.
func replaced(t *testing.T, text, old, new string) string {
	require.Equal(t, 1, strings.Count(text, old), "the snippet has %q once", old)
	return strings.Replace(text, old, new, 1)
}

// emptied forgets what a server holds and has counted.
func emptied(t *testing.T, server *servertest.Server) *redis.Client {
	client := server.Client(t)
	for _, line := range []string{"flushall", "config resetstat", "slowlog reset"} {
		servertest.Call(t, client, line)
	}
	return client
}

// An end is how a process ended, and what its server has seen by then. Failures print it.
type end struct {
	err    error
	took   time.Duration
	left   time.Duration  // until the key expires; negative when there is none
	calls  map[string]int // of each command, also by scripts
	output string
}

// run runs a process until it ends. A process that hangs is killed.
func run(t *testing.T, client *redis.Client, command *exec.Cmd) (e end) {
	var output bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &output, &output, time.Second
	start := time.Now()
	require.NoError(t, command.Start())
	hangs := time.AfterFunc(servertest.Patience, func() { _ = command.Process.Kill() })
	e.err = command.Wait()
	hangs.Stop()
	e.took = time.Since(start)
	e.left = client.PTTL(t.Context(), key).Val()
	e.calls = map[string]int{}
	e.output = output.String()
	info, err := client.InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for field, values := range info["Commandstats"] {
		var count int
		_, err := fmt.Sscanf(values, "calls=%d,", &count)
		require.NoError(t, err)
		e.calls[strings.TrimPrefix(field, "cmdstat_")] = count
	}
	return e
}

// requireTurns requires that a process goes through all rounds with one call each, and sleeps until
// its turn. Another process would then have to wait for too long: it gives up with an error, and
// leaves nothing behind. A slow process has less to wait for, or nothing.
func requireTurns(t *testing.T, server *servertest.Server, command func() *exec.Cmd) {
	ctx := t.Context()
	client := emptied(t, server)
	end := run(t, client, command())
	require.NoError(t, end.err, end)
	lines := regexp.MustCompile(`(?m)^remaining: \d+\n`).ReplaceAllString(end.output, "")
	require.Equal(t, strings.Repeat("went on\n", rounds), lines, end)
	require.LessOrEqual(t, end.left, 7500*time.Millisecond, "it has not waited for its turn: %v", end)
	asked := end.calls["evalsha"] + end.calls["eval"]
	if asked > 0 {
		require.LessOrEqual(t, asked, rounds+1, "one of them has to send the text of the script: %v", end)
		require.LessOrEqual(t, end.calls["eval"], 1, "the text of the script is sent once: %v", end)
		require.Equal(t, rounds, end.calls["set"], end)
	} else {
		require.Equal(t, rounds, end.calls["cl.reserve"], end)
	}

	result, err := limiter.New(client).Charge(ctx, key, quick, 1000)
	require.NoError(t, err)
	require.Greater(t, result.RetryAfter, 2*servertest.Patience)
	before := client.Get(ctx, key).Val()
	end = run(t, client, command())
	require.Error(t, end.err, end)
	require.Regexp(t, "no token within 10 s, ask again in|the caller waits for no more than", end.output, end)
	require.NotContains(t, end.output, "went on", end)
	require.Equal(t, before, client.Get(ctx, key).Val(), end)
}

// requireRefund requires that a client reserves a token and gives it back with its receipt; and,
// when the answer is lost, that it fails, and does not send the refund again.
func requireRefund(t *testing.T, server *servertest.Server, command func(addr string) *exec.Cmd) {
	ctx := t.Context()
	client := emptied(t, server)
	require.NoError(t, client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	end := run(t, client, command(server.Addr()))
	require.NoError(t, end.err, end)
	require.Negative(t, end.left, "the token is not given back: %v", end)
	var refunds []string
	for _, logged := range client.SlowLogGet(ctx, -1).Val() {
		line := strings.Join(logged.Args, " ")
		if strings.HasPrefix(strings.ToLower(line), "cl.refund") {
			refunds = append(refunds, line)
		}
	}
	require.Len(t, refunds, 1, end)
	require.Regexp(t, key+` 15 30 60 1 \d{19}$`, refunds[0])

	end = run(t, client, command(servertest.LoseAnswer(t, server.Addr(), "cl.refund")))
	require.Equal(t, 2, end.calls["cl.refund"], end)
	require.Error(t, end.err, end)
}

// TestTableOfCalls: each line of the page's table, one after the other.
func TestTableOfCalls(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	var calls []string
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `(CL\\.[^`]+)` \\|")
	for _, match := range row.FindAllStringSubmatch(clients(t), -1) {
		calls = append(calls, match[1]+" => "+servertest.Call(t, client, match[1]))
	}
	require.Equal(t, []string{
		"CL.RESERVE user:42 15 30 60 1 10 => 0 0 [0 15 14 0 2 2s]",
		"CL.RESERVE user:42 15 30 60 1 => 0 0 [0 15 13 0 4 4s]",
		"CL.RESERVE {acme}:requests 10 60 60 1 {acme}:tokens 3000 30000 60 1000 => 0 0 [0 10 9 0 1 1s] [0 3000 2000 0 2 2s]",
		"CL.TAKE user:42 15 30 60 20 => 1 2 [1 15 0 2 30 30s] 13",
		"CL.RESERVE login:42 5 UNTIL +900 1 => 0 0 [0 5 4 0 900 4102445700]",
		"CL.CHARGE {acme}:tokens 3000 30000 60 250 => 0 0 [0 3000 1750 0 2.5 2.5s]",
		"CL.REFUND {acme}:tokens 3000 30000 60 250 4102444802000000000 => 0 0 [0 3000 2000 0 2]",
	}, calls)
}
