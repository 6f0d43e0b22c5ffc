// Package clients_test runs what docs/clients.md and docs/moving-from-redis-rate.md say,
// with the clients themselves, against real servers.
package clients_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/page"
)

const clientsPage = "../../docs/clients.md"

// clients returns the page.
func clients(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(clientsPage)
	require.NoError(t, err)
	return string(content)
}

// snippet returns the block of docs/clients.md that is marked with that name.
func snippet(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSuffix(page.Marked(t, clientsPage, name), "\n")
}

// key is the funnel of all snippets, and ofThePage its limit.
const (
	key       = "user:42"
	ofThePage = "15 30 60"
)

// rounds is how often a snippet runs in one process: as often as the funnel lets through at
// once, and once more.
const rounds = 16

// quick is the page's limit in a shorter period: a token leaks in half a second, so the last
// round waits for that long, and the funnel drains in 7.5 s.
var quick = limiter.Per(30, 15*time.Second).Burst(15)

// replaced puts new in the place of old, which the snippet has once.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), "the snippet has %q once", old)
	return strings.Replace(text, old, new, 1)
}

// emptied forgets what a server holds and has counted.
func emptied(t *testing.T, server *servertest.Server) *redis.Client {
	t.Helper()
	client := server.Client(t)
	for _, line := range []string{"flushall", "config resetstat", "slowlog reset"} {
		servertest.Call(t, client, line)
	}
	return client
}

// requireTurns requires that a process goes through all rounds with one call each, and
// sleeps until its turn, no longer. Then another process, which would have to wait for too
// long, gives up with an error, and leaves nothing behind.
func requireTurns(t *testing.T, server *servertest.Server, command func() *exec.Cmd) {
	t.Helper()
	ctx, client := t.Context(), emptied(t, server)
	output, err := command().CombinedOutput()
	left := client.PTTL(ctx, key).Val()
	require.NoError(t, err, "%s", output)
	lines := regexp.MustCompile(`(?m)^remaining: \d+\n`).ReplaceAllString(string(output), "")
	require.Equal(t, strings.Repeat("went on\n", rounds), lines)
	require.LessOrEqual(t, left, 7500*time.Millisecond, "it has waited for its turn")
	require.Positive(t, left, "it has not waited for much longer")
	calls := callsOf(t, client)
	if asked := calls["evalsha"] + calls["eval"]; asked > 0 {
		require.LessOrEqual(t, asked, rounds+1, "one of them sends the text of the script")
		require.Equal(t, rounds, calls["set"])
	} else {
		require.Equal(t, rounds, calls["cl.reserve"])
	}

	result, err := limiter.New(client).Charge(ctx, key, quick, 1000)
	require.NoError(t, err)
	require.Greater(t, result.RetryAfter, time.Minute)
	before := client.Get(ctx, key).Val()
	output, err = command().CombinedOutput()
	require.Error(t, err, "%s", output)
	require.Regexp(t, "no token within 10 s, ask again in|the caller waits for no more than", string(output))
	require.NotContains(t, string(output), "went on")
	require.Equal(t, before, client.Get(ctx, key).Val())
}

// requireRefund requires that a client reserves a token and gives it back with its receipt;
// and, when the answer is lost, that it fails, and does not send the refund again.
func requireRefund(t *testing.T, server *servertest.Server, command func(addr string) *exec.Cmd) {
	t.Helper()
	ctx, client := t.Context(), emptied(t, server)
	require.NoError(t, client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	output, err := command(server.Addr()).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Zero(t, client.Exists(ctx, key).Val())
	var refunds []string
	for _, logged := range client.SlowLogGet(ctx, -1).Val() {
		if line := strings.Join(logged.Args, " "); strings.HasPrefix(strings.ToLower(line), "cl.refund") {
			refunds = append(refunds, line)
		}
	}
	require.Len(t, refunds, 1)
	require.Regexp(t, key+" "+ofThePage+` 1 \d{19}$`, refunds[0])

	output, err = command(servertest.LoseAnswer(t, server.Addr(), "cl.refund")).CombinedOutput()
	require.Equal(t, 2, callsOf(t, client)["cl.refund"], "%s", output)
	require.Error(t, err, "%s", output)
}

// callsOf are how often each command was called, also by scripts.
func callsOf(t *testing.T, client *redis.Client) map[string]int {
	t.Helper()
	info, err := client.InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	calls := map[string]int{}
	for field, values := range info["Commandstats"] {
		var count int
		_, err := fmt.Sscanf(values, "calls=%d,", &count)
		require.NoError(t, err)
		calls[strings.TrimPrefix(field, "cmdstat_")] = count
	}
	return calls
}

// TestTableOfCalls: each line of the page's table, one after the other.
func TestTableOfCalls(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	var calls []string
	for _, match := range regexp.MustCompile("(?m)^\\| [^|]+ \\| `(CL\\.[^`]+)` \\|").FindAllStringSubmatch(clients(t), -1) {
		calls = append(calls, match[1]+" => "+servertest.Call(t, client, match[1]))
	}
	require.Equal(t, []string{
		"CL.RESERVE user:42 15 30 60 1 10 => 0 0 [0 15 14 0 2 2s]",
		"CL.RESERVE user:42 15 30 60 1 => 0 0 [0 15 13 0 4 4s]",
		"CL.RESERVE {acme}:requests 10 60 60 1 {acme}:tokens 3000 30000 60 1000 => 0 0 [0 10 9 0 1 1s] [0 3000 2000 0 2 2s]",
		"CL.TAKE user:42 15 30 60 20 => 1 2 [1 15 0 2 30 30s] 13",
		"CL.CHARGE {acme}:tokens 3000 30000 60 250 => 0 0 [0 3000 1750 0 2.5 2.5s]",
		"CL.REFUND {acme}:tokens 3000 30000 60 250 4102444802000000000 => 0 0 [0 3000 2000 0 2]",
		"CL.PEEK {acme}:tokens 3000 30000 60 1 => 0 0 [0 3000 2000 0 2]",
	}, calls)
}
