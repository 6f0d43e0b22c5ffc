// The programs that end print what they were told, share their limits, and end on Ctrl-C.

package examples_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// Of 20 replies at one instant 15 are allowed, and 5 limited for 2 seconds; also the
// second time.
func TestReplies(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := 1; i <= 20; i++ {
		if i <= 15 {
			fmt.Fprintf(&want, "reply %d: allowed, %d more at once, all 15 again in %ds\n", i, 15-i, 2*i)
		} else {
			fmt.Fprintf(&want, "reply %d: limited, try again in 2s\n", i)
		}
	}
	server := startAtOneInstant(t)
	for range 2 {
		output, err := start(t, "replies", server).wait(t)
		require.NoError(t, err)
		require.Equal(t, want.String(), output)
	}
}

func TestRepliesWithoutRedis(t *testing.T) {
	t.Parallel()
	p := start(t, "replies", &servertest.Server{Port: servertest.FreePort(t)})
	_, err := p.wait(t)
	require.Error(t, err)
	require.Contains(t, printed(t, p.stderr), "connection refused")
}

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

// quick has the model answer in at most 0.1 s.
var quick = []string{"-token", "100us", "-requests"}

// usedTokens is what a tenant says at the end, and requires how many requests were answered.
func usedTokens(t *testing.T, output, tenant string, answered, requests int) (tokens int) {
	t.Helper()
	line := fmt.Sprintf("%s: %d of %d requests answered, ", tenant, answered, requests)
	_, used, found := strings.Cut(output, line)
	require.True(t, found, output)
	_, err := fmt.Sscanf(used, "%d tokens used", &tokens)
	require.NoError(t, err)
	return tokens
}

// While nothing leaks, what is in the funnels is what was used, to the token.
func TestLLMBooksEveryToken(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	output, err := start(t, "llm", server, append(quick, "2")...).wait(t)
	require.NoError(t, err)
	for _, tenant := range []string{"greedy", "modest"} {
		l := limiter.New(server.Client(t))
		requests, err := l.Peek(t.Context(), "example:llm:{"+tenant+"}:requests", limiter.PerMinute(60).Burst(10))
		require.NoError(t, err)
		require.Equal(t, 8, requests.Remaining)
		tokens, err := l.Peek(t.Context(), "example:llm:{"+tenant+"}:tokens", limiter.PerMinute(30_000).Burst(6_000))
		require.NoError(t, err)
		require.Equal(t, 6_000-usedTokens(t, output, tenant, 2, 2), tokens.Remaining)
	}
}

// While time goes on, the greedy tenant waits for what others of its requests give back, here by
// script. Its budget holds three requests at once.
func TestLLM(t *testing.T) {
	t.Parallel()
	output, err := start(t, "llm", servertest.Start(t, servertest.Options{}), append(quick, "4")...).wait(t)
	require.NoError(t, err)
	usedTokens(t, output, "greedy", 4, 4)
	usedTokens(t, output, "modest", 4, 4)
	require.Regexp(t, `greedy, request \d: \d+ tokens used in \S+, [1-9]\d* given back`, output)
}

// The budget of one is exhausted for ever, as the clock stands still, and the other gets
// all of its answers.
func TestLLMTenantsAreApart(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	p := start(t, "llm", server, append(quick, "6")...)
	fifth := regexp.MustCompile(`modest, request 5: \d+ tokens used`)
	servertest.Eventually(t, "the modest tenant is answered, and the greedy one waits", func() bool {
		return fifth.MatchString(printed(t, p.stdout)) &&
			servertest.InfoField(t, server.Client(t), "funnel", "funnel_limited") > 0
	})
	output := p.interrupt(t)
	require.NotContains(t, output, "greedy: 6 of 6")
}
