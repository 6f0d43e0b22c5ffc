// The programs that end print what they were told, share their limits, and end on Ctrl-C.

package examples_test

import (
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

// quick has the model answer in at most 0.1 s.
var quick = []string{"-token", "100us", "-requests"}

// tokensUsed is what the answers of a tenant used, and requires how many there were.
func tokensUsed(t *testing.T, output, tenant string, answers int) (tokens int) {
	matches := regexp.MustCompile(tenant+`, request \d: (\d+) tokens used`).FindAllStringSubmatch(output, -1)
	require.Len(t, matches, answers, output)
	for _, match := range matches {
		used, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		tokens += used
	}
	return tokens
}

// requireBooked requires what a tenant has used of its budgets, and that it holds no slot.
func requireBooked(t *testing.T, server *servertest.Server, tenant string, requests, tokens int) {
	key, client := "example:llm:{"+tenant+"}:", server.Client(t)
	result, err := limiter.New(client).Peek(t.Context(), key+"requests", limiter.PerMinute(60).WithCapacity(10))
	require.NoError(t, err)
	require.Equal(t, 10-requests, result.Remaining)
	result, err = limiter.New(client).Peek(t.Context(), key+"tokens", limiter.PerMinute(30_000).WithCapacity(7_000))
	require.NoError(t, err)
	require.Equal(t, 7_000-tokens, result.Remaining)
	result, err = limiter.New(client).Peek(t.Context(), key+"month", limiter.Monthly(1_000_000, time.UTC))
	require.NoError(t, err)
	require.Equal(t, 1_000_000-tokens, result.Remaining)
	require.Zero(t, client.Exists(t.Context(), key+"slots").Val())
}

// While time goes on, a tenant waits for slots, here of another process, and for the tokens that
// others of its requests give back; here by script.
func TestLLM(t *testing.T) {
	t.Parallel()
	server, slots := servertest.Start(t, servertest.Options{}), "example:llm:{chatty}:slots"
	client := server.Client(t)
	later := float64(time.Now().Add(time.Hour).UnixMilli())
	for holder := range 5 {
		require.NoError(t, client.ZAdd(t.Context(), slots, redis.Z{Score: later, Member: holder}).Err())
	}
	p := start(t, "llm", server, append(quick, "4")...)
	servertest.Eventually(t, "greedy does not wait for chatty", func() bool {
		return strings.Count(printed(t, p.stdout), "given back") == 4
	})
	require.NotContains(t, printed(t, p.stdout), "chatty", "it waits for a slot")
	require.NoError(t, client.ZRem(t.Context(), slots, 3).Err())
	output, err := p.wait(t)
	require.NoError(t, err)
	tokensUsed(t, output, "chatty", 4)
	tokensUsed(t, output, "greedy", 4)
	require.EqualValues(t, 4, client.ZCard(t.Context(), slots).Val())
}

// Of seven requests, five hold a slot while the model answers, or as many as the tokens are enough
// for. Ctrl-C gives slots and tokens back.
func TestLLMEndsOnInterrupt(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	p := start(t, "llm", server, "-token", "1m")
	servertest.Eventually(t, "five and three requests are in flight", func() bool {
		output := printed(t, p.stdout)
		return strings.Count(output, "chatty") == 5 && strings.Count(output, "greedy") == 3 &&
			strings.Contains(output, "0 slots, 5 requests, 1750 tokens remain") &&
			strings.Contains(output, "2 slots, 7 requests, 400 tokens remain") &&
			servertest.InfoField(t, server.Client(t), "funnel", "funnel_limited") >= 2 // the first of each who waits
	})
	require.EqualValues(t, 5, server.Client(t).ZCard(t.Context(), "example:llm:{chatty}:slots").Val())
	output := p.interrupt(t)
	requireBooked(t, server, "chatty", 5, tokensUsed(t, output, "chatty", 5))
	requireBooked(t, server, "greedy", 3, tokensUsed(t, output, "greedy", 3))
}
