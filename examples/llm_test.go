package examples_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// The budgets of the example, and the tokens that leak in a second.
var (
	llmRequests = limiter.PerMinute(60).Burst(10)
	llmTokens   = limiter.PerMinute(30_000).Burst(3_000)
)

const llmLeak = 500

// usedTokens is what a tenant says at the end, and requires how many requests were answered.
func usedTokens(t *testing.T, output, tenant string, answered, requests int) (tokens int64) {
	t.Helper()
	line := fmt.Sprintf(`(?m)^%s: %d of %d requests answered, (\d+) tokens used`, tenant, answered, requests)
	match := regexp.MustCompile(line).FindStringSubmatch(output)
	require.NotNil(t, match, "%s", line)
	tokens, err := strconv.ParseInt(match[1], 10, 64)
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

// waitedFor is how long a tenant has waited, by its own lines, at least.
func waitedFor(t *testing.T, output, tenant string) (total time.Duration) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^.* `+tenant+`, .*, waits (\S+);`).FindAllStringSubmatch(output, -1) {
		wait, err := time.ParseDuration(match[1])
		require.NoError(t, err)
		total += wait - time.Millisecond // it is rounded
	}
	return total
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

// While time goes on, it is what was used less what has leaked meanwhile.
func TestLLM(t *testing.T) {
	for _, module := range []bool{true, false} {
		t.Run(fmt.Sprintf("module %v", module), func(t *testing.T) {
			t.Parallel()
			options := servertest.Options{}
			if module {
				options.Module = servertest.Module(t)
			}
			server := servertest.Start(t, options)
			client := server.Client(t)
			began := time.Now()
			output, err := start(t, "llm", server).wait(t)
			require.NoError(t, err)
			for _, tenant := range []string{"greedy", "modest"} {
				used, left := usedTokens(t, output, tenant, 6, 6), level(t, client, "{"+tenant+"}:tokens", llmTokens)
				// The funnel leaks for as long as it is not empty, as it is not while
				// the tenant waits.
				mostLeaked := int64(time.Since(began).Seconds()*llmLeak) + 1
				leastLeaked := int64(waitedFor(t, output, tenant).Seconds() * llmLeak)
				require.GreaterOrEqual(t, left, used-mostLeaked, tenant)
				require.LessOrEqual(t, left, used-leastLeaked, tenant)
			}
			require.Positive(t, waitedFor(t, output, "greedy"))
			require.Zero(t, waitedFor(t, output, "modest"))
		})
	}
}

// The budget of one is exhausted for ever, as the clock stands still, and the other gets
// all of its answers.
func TestLLMTenantsAreApart(t *testing.T) {
	p := start(t, "llm", startAtOneInstant(t))
	servertest.Eventually(t, "the modest tenant is done, and the greedy one waits", func() bool {
		output := printed(t, p.stdout)
		return strings.Contains(output, "modest: 6 of 6 requests answered") &&
			regexp.MustCompile(`greedy, request 3: limited for 1000 tokens, waits \S+; \d requests and \d+ tokens remain\n`).MatchString(output)
	})
	output := p.interrupt(t)
	require.NotContains(t, output, "greedy, request 4")
	require.NotRegexp(t, `modest, request \d: limited`, output)
	usedTokens(t, output, "greedy", 2, 6)
}
