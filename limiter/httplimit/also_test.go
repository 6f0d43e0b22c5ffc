// A request takes tokens from all limits of its policy, and a slot, or nothing, and the headers tell of all.

package httplimit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

func everybody(*http.Request) string { return "" }

func TestAlso(t *testing.T) {
	for name, c := range map[string]struct {
		options []httplimit.Option
		key     string // of the policy's own funnel
	}{
		"tokens": {nil, "own:192.0.2.1"},
		"slots":  {[]httplimit.Option{httplimit.WithSlots(limiter.Slots{Max: 9, TTL: time.Second})}, "{own:192.0.2.1}"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, cost := 0, 0
			l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
				if event.Result.Key == "all:" {
					calls++
				}
			}))
			handler := httplimit.New(l, slow(5), append(c.options, httplimit.WithName("own"),
				httplimit.WithCost(func(*http.Request) int { return cost }),
				httplimit.WithAlso("all", slow(8), everybody),
				httplimit.WithAlso("fast", limiter.PerSecond(100), everybody))...)(ok)
			for i, step := range []struct {
				address      string
				cost, status int
				rateLimit    string
				x, retry     string // X-RateLimit-Limit and -Remaining, Retry-After
			}{
				{"192.0.2.1", 3, 200, `"own";r=2;t=259200 "all";r=5;t=259200 "fast";r=97;t=1`, "5 2", ""},
				{"192.0.2.2", 3, 200, `"own";r=2;t=259200 "all";r=2;t=518400 "fast";r=94;t=1`, "5 2", ""},
				{"192.0.2.3", 3, 429, `"own";r=5;t=0 "all";r=2;t=86400 "fast";r=94;t=1`, "8 2", "86400"},
				{"192.0.2.3", 2, 200, `"own";r=3;t=172800 "all";r=0;t=691200 "fast";r=92;t=1`, "8 0", ""},
				{"192.0.2.1", 5, 429, `"own";r=2;t=259200 "all";r=0;t=432000 "fast";r=92;t=1`, "8 0", "432000"},
				{"192.0.2.1", 7, 413, `"own";r=2;t=259200 "all";r=0;t=604800 "fast";r=92;t=1`, "8 0", ""},
				{"192.0.2.1", 0, 200, `"own";r=2;t=259200 "all";r=0;t=691200 "fast";r=92;t=1`, "8 0", ""},
			} {
				cost = step.cost
				answer := ask(handler, from(step.address))
				synctest.Wait() // the slot is given back in the background
				header := answer.Header()
				require.Equal(t, step.status, answer.Code, "%s %d", name, i)
				tokens, slots, _ := strings.Cut(strings.Join(header.Values("RateLimit"), " "), ` "own:slots"`)
				require.Equal(t, step.rateLimit, tokens, "%s %d", name, i)
				require.Equal(t, c.options == nil, slots == "", "%s %d", name, i)
				require.Equal(t, step.x, header.Get("X-RateLimit-Limit")+" "+header.Get("X-RateLimit-Remaining"), "%s %d", name, i)
				require.Equal(t, step.retry, header.Get("Retry-After"), "%s %d", name, i)
				isTooLarge := strings.HasPrefix(answer.Body.String(), "request too large: it costs 7, and at most 5 can be granted")
				require.Equal(t, step.status == 413, isTooLarge, "%s %d", name, i)
				require.Equal(t, i+1, calls, "%s %d: calls", name, i)
			}
			result, err := l.Peek(t.Context(), c.key, slow(5))
			require.NoError(t, err)
			require.Equal(t, 2, result.Remaining, name)
		})
	}
}

// A handler can settle all that its request took.
func TestResultsFrom(t *testing.T) {
	l := limiter.NewLocal()
	handler := httplimit.New(l, slow(5), httplimit.WithAlso("all", slow(8), everybody))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			results := httplimit.ResultsFrom(r.Context())
			require.Equal(t, []string{"default:192.0.2.1", "all:"}, []string{results[0].Key, results[1].Key})
			own, ok := httplimit.ResultFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, results[0], own)
			for i := range results {
				_, err := l.Settle(r.Context(), &results[i], 3)
				require.NoError(t, err)
			}
		}))
	ask(handler, from("192.0.2.1"))
	ask(httplimit.New(l, slow(5))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, 1, httplimit.ResultsFrom(r.Context())[0].Remaining)
	})), from("192.0.2.1"))
	result, err := l.Peek(t.Context(), httplimit.FunnelKey("all", ""), slow(8))
	require.NoError(t, err)
	require.Equal(t, 5, result.Remaining)
	require.Empty(t, httplimit.ResultsFrom(t.Context()))
}

func TestWithAlsoPanics(t *testing.T) {
	l := limiter.NewLocal()
	for _, c := range []struct {
		want, name string
		limiter    limiter.Allower
		limit      limiter.Limit
		key        httplimit.KeyFunc
	}{
		{"httplimit: WithAlso needs a Limiter with AllowAll and PeekAll", "all", limiter.Shadow(l, nil), slow(1), everybody},
		{`httplimit: WithAlso needs another name than "default", which is taken`, "default", l, slow(1), everybody},
		{`httplimit: WithAlso needs another name than "first", which is taken`, "first", l, slow(1), everybody},
		{"httplimit: WithAlso needs a KeyFunc, not nil", "all", l, slow(1), nil},
		{"httplimit: a policy's name must not be empty", "", l, slow(1), everybody},
		{"httplimit: WithAlso needs a valid limit, not 1 per 0s, capacity 1: " + limiter.Per(1, 0).Validate().Error(),
			"all", l, limiter.Per(1, 0), everybody},
	} {
		require.PanicsWithValue(t, c.want, func() {
			first := httplimit.WithAlso("first", slow(1), everybody)
			httplimit.New(c.limiter, slow(1), first, httplimit.WithAlso(c.name, c.limit, c.key))
		})
	}
}
