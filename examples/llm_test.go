package examples_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// The budgets of the example.
var (
	llmRequests = limiter.PerMinute(60).Burst(10)
	llmTokens   = limiter.PerMinute(30_000).Burst(3_000)
)

// usedTokens is what a tenant says at the end, and requires how many requests were answered.
func usedTokens(t *testing.T, output, tenant string, answered, requests int) (tokens int) {
	t.Helper()
	line := fmt.Sprintf("\n%s: %d of %d requests answered, ", tenant, answered, requests)
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
	output, err := start(t, "llm", server, "-requests", "2").wait(t)
	require.NoError(t, err)
	for _, tenant := range []string{"greedy", "modest"} {
		l := limiter.New(server.Client(t))
		requests, err := l.Peek(t.Context(), "example:llm:{"+tenant+"}:requests", llmRequests)
		require.NoError(t, err)
		require.Equal(t, 8, requests.Remaining)
		tokens, err := l.Peek(t.Context(), "example:llm:{"+tenant+"}:tokens", llmTokens)
		require.NoError(t, err)
		require.Equal(t, 3_000-usedTokens(t, output, tenant, 2, 2), tokens.Remaining)
	}
}

// While time goes on, the greedy tenant waits for its turns, here by script.
func TestLLM(t *testing.T) {
	t.Parallel()
	output, err := start(t, "llm", servertest.Start(t, servertest.Options{}), "-requests", "4").wait(t)
	require.NoError(t, err)
	usedTokens(t, output, "greedy", 4, 4)
	usedTokens(t, output, "modest", 4, 4)
	// Its prompts alone are 3,200 tokens: 3,000 at once, and 500 a second.
	_, waited, _ := strings.Cut(output[strings.Index(output, "\ngreedy: "):], "tokens used, ")
	duration, err := time.ParseDuration(waited[:strings.Index(waited, " waited")])
	require.NoError(t, err)
	require.Greater(t, duration, 400*time.Millisecond)
	require.Less(t, duration, servertest.Patience)
}

// The budget of one is exhausted for ever, as the clock stands still, and the other gets
// all of its answers.
func TestLLMTenantsAreApart(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	p := start(t, "llm", server)
	servertest.Eventually(t, "the modest tenant is done, and the greedy one waits", func() bool {
		return strings.Contains(printed(t, p.stdout), "modest: 6 of 6 requests answered") &&
			servertest.InfoField(t, server.Client(t), "funnel", "funnel_limited") > 0
	})
	output := p.interrupt(t)
	require.NotContains(t, output, "greedy, request 3")
	usedTokens(t, output, "greedy", 2, 6)
}
