package examples_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
func usedTokens(t *testing.T, output, tenant string, answered, requests int) (tokens int64) {
	t.Helper()
	line := fmt.Sprintf("\n%s: %d of %d requests answered, ", tenant, answered, requests)
	_, used, found := strings.Cut(output, line)
	require.True(t, found, output)
	_, err := fmt.Sscanf(used, "%d tokens used", &tokens)
	require.NoError(t, err)
	return tokens
}

// level is how many tokens are in a funnel of the example.
func level(t *testing.T, client *redis.Client, key string, limit limiter.Limit) int64 {
	t.Helper()
	result, err := limiter.New(client).Peek(context.Background(), "example:llm:"+key, limit)
	require.NoError(t, err)
	return int64(result.ResetAfter) * int64(limit.Count) / int64(limit.Period)
}

// While nothing leaks, what is in the funnels is what was used, to the token.
func TestLLMBooksEveryToken(t *testing.T) {
	for seed := range 3 {
		server := startAtOneInstant(t)
		output, err := start(t, "llm", server, "-requests", "2", "-seed", strconv.Itoa(seed)).wait(t)
		require.NoError(t, err)
		for _, tenant := range []string{"greedy", "modest"} {
			client := server.Client(t)
			require.Equal(t, usedTokens(t, output, tenant, 2, 2), level(t, client, "{"+tenant+"}:tokens", llmTokens))
			require.EqualValues(t, 2, level(t, client, "{"+tenant+"}:requests", llmRequests))
		}
	}
}

// While time goes on, the greedy tenant waits; both get all of their answers.
func TestLLM(t *testing.T) {
	for name, module := range map[string]string{"module": servertest.Module(t), "script": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := start(t, "llm", servertest.Start(t, servertest.Options{Module: module})).wait(t)
			require.NoError(t, err)
			usedTokens(t, output, "greedy", 6, 6)
			usedTokens(t, output, "modest", 6, 6)
			// Its prompts alone are 4,800 tokens: 3,000 at once, and 500 a second.
			_, waited, _ := strings.Cut(output[strings.Index(output, "\ngreedy: "):], "tokens used, ")
			duration, err := time.ParseDuration(waited[:strings.Index(waited, " waited")])
			require.NoError(t, err)
			require.Greater(t, duration, 2*time.Second)
			require.Less(t, duration, servertest.Patience)
		})
	}
}

// The budget of one is exhausted for ever, as the clock stands still, and the other gets
// all of its answers.
func TestLLMTenantsAreApart(t *testing.T) {
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
