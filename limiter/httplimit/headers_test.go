// The headers are as in docs/go.md, for one limit and for several. Handlers settle the tokens of a
// request.

package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// headersOf are the status and the headers that the middleware sets, in the order of names.
func headersOf(got *httptest.ResponseRecorder) []string {
	headers := []string{strconv.Itoa(got.Code)}
	for _, name := range []string{
		"Retry-After", "RateLimit-Policy", "RateLimit",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	} {
		headers = append(headers, strings.Join(got.Header().Values(name), ", "))
	}
	return headers
}

// The table of docs/go.md, section "Headers". A client that waits for Retry-After is allowed; a
// nanosecond less is too early.
func TestHeadersAreThoseOfThePage(t *testing.T) { synctest.Test(t, testHeadersAreThoseOfThePage) }

func testHeadersAreThoseOfThePage(t *testing.T) {
	handler := httplimit.New(limiter.NewLocal(), "reply", limiter.PerMinute(30).WithCapacity(15))(ok)
	send := func() *httptest.ResponseRecorder { return ask(handler, from("192.0.2.1")) }
	require.Equal(t, []string{"200", "", `"reply";q=15;w=30`, `"reply";r=14;t=2`, "15", "14", "2"}, headersOf(send()))
	for range 14 {
		require.Equal(t, http.StatusOK, send().Code)
	}
	limited := send()
	require.Equal(t, []string{"429", "2", `"reply";q=15;w=30`, `"reply";r=0;t=2`, "15", "0", "30"}, headersOf(limited))
	require.Equal(t, "too many requests: try again in 2 seconds (policy \"reply\")\n", limited.Body.String())
	require.Equal(t, "text/plain; charset=utf-8", limited.Header().Get("Content-Type"))
	time.Sleep(2*time.Second - 1)
	require.Equal(t, http.StatusTooManyRequests, send().Code)
	time.Sleep(time.Nanosecond)
	require.Equal(t, http.StatusOK, send().Code)
}

// Numbers are rounded up, and stay within the Integers of structured fields (RFC 9651). Names are
// quoted. With a cost of 0, and if it never fits, t is the time of the reset. AtMost and Window say
// what they were asked for.
func TestHeadersForAnyLimit(t *testing.T) {
	huge := limiter.PerSecond(1e9).WithCapacity(9e18)
	for name, c := range map[string]struct {
		limit                         limiter.Limit
		costs                         []int
		policy, rateLimit, retryAfter string // of the last request
	}{
		"milliseconds":      {limiter.Per(3, 700*time.Millisecond).WithCapacity(7), []int{1}, "q=7;w=2", "r=6;t=1", ""},
		"limited for 40 ms": {limiter.Per(1, 20*time.Millisecond).WithCapacity(2), []int{2, 2}, "q=2;w=1", "r=0;t=1", "1"},
		"of no cost":        {limiter.PerMinute(7).WithCapacity(100), []int{100, 0}, "q=100;w=858", "r=0;t=858", ""},
		"never fits":        {limiter.PerMinute(60).WithCapacity(4), []int{3, 5}, "q=4;w=4", "r=1;t=3", ""},
		"large":             {huge, []int{1}, "q=999999999999999;w=9000000000", "r=999999999999999;t=1", ""},
		`qu"ot\ed`:          {slow(1000), []int{999}, "q=1000;w=86400000", "r=1;t=86313600", ""},
		"at most":           {limiter.AtMost(5, 15*time.Minute, 2), []int{1}, "q=5;w=900", "r=1;t=225", ""},
		"at most, limited":  {limiter.AtMost(5, 15*time.Minute, 2), []int{2, 1}, "q=5;w=900", "r=0;t=225", "225"},

		// It is midnight in a bubble.
		"a day":      {limiter.Daily(10, time.UTC), []int{1}, "q=10;w=86400", "r=9;t=86400", ""},
		"a new day":  {limiter.Daily(10, time.UTC), []int{0}, "q=10;w=86400", "r=10;t=86400", ""},
		"a month":    {limiter.Monthly(3, time.UTC), []int{3, 1}, "q=3;w=2678400", "r=0;t=2678400", "2678400"},
		"too much":   {limiter.Monthly(3, time.UTC), []int{1, 4}, "q=3;w=2678400", "r=2;t=2678400", ""},
		"a window":   {limiter.Window(5, 15*time.Minute), []int{5, 1}, "q=5;w=900", "r=0;t=900", "900"},
		"a new one":  {limiter.Window(5, 15*time.Minute), []int{0}, "q=5;w=900", "r=5;t=900", ""},
		"an hour":    {limiter.Until(2, time.Unix(946688400, 0)), []int{1}, "q=2", "r=1;t=3600", ""},
		"over":       {limiter.Until(2, time.Unix(946684800, 0)), []int{1}, "q=2", "r=0;t=0", ""},
		"over, of 0": {limiter.Until(2, time.Unix(946684800, 0)), []int{0}, "q=2", "r=0;t=0", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			cost, last := 0, []string(nil)
			handler := httplimit.New(limiter.NewLocal(), name, c.limit,
				httplimit.WithCost(func(*http.Request) int { return cost }))(ok)
			for _, cost = range c.costs {
				last = headersOf(ask(handler, from("192.0.2.1")))
			}
			quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `";`
			require.Equal(t, []string{c.retryAfter, quoted + c.policy, quoted + c.rateLimit}, last[1:4], name)
			require.Equal(t, strconv.Itoa(min(c.limit.Max(), 999_999_999_999_999)), last[4], name)
		})
	}
}

func TestHeadersOfSeveralPolicies(t *testing.T) { synctest.Test(t, testHeadersOfSeveralPolicies) }

func testHeadersOfSeveralPolicies(t *testing.T) {
	l := limiter.NewLocal()
	perAddress := httplimit.New(l, "address", limiter.PerMinute(60).WithCapacity(3))
	perAccount := httplimit.New(l, "account", limiter.PerHour(3600).WithCapacity(2))
	require.Equal(t, []string{"200", "", `"address";q=3;w=3, "account";q=2;w=2`, `"address";r=2;t=1, "account";r=1;t=1`,
		"2", "1", "1"}, headersOf(ask(perAddress(perAccount(ok)), from("192.0.2.1"))))

	// The other way round, the outer one has the least remaining.
	require.Equal(t, []string{"200", "", `"account";q=2;w=2, "address";q=3;w=3`, `"account";r=0;t=2, "address";r=1;t=2`,
		"2", "0", "2"}, headersOf(ask(perAccount(perAddress(ok)), from("192.0.2.1"))))
}

// A handler settles what its request has cost, by the Result of the innermost policy. A handler
// that decides itself writes the same headers as the middleware.
func TestHandlersSettle(t *testing.T) {
	l := limiter.NewLocal()
	settle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, ok := httplimit.ResultFrom(r.Context())
		require.True(t, ok)
		_, err := l.Settle(r.Context(), &result, 3)
		require.NoError(t, err)
	})
	cost := httplimit.WithCost(func(*http.Request) int { return 8 })
	inner := httplimit.New(l, "inner", slow(10), cost)(settle)
	handler := httplimit.New(l, "outer", slow(10))(inner)
	require.Equal(t, http.StatusOK, ask(handler, from("192.0.2.1")).Code)
	inside, err := l.Peek(t.Context(), "{inner:192.0.2.1}:rate", slow(10))
	require.NoError(t, err)
	require.Equal(t, 7, inside.Remaining, "3 of the 8 tokens were used")
	_, ok := httplimit.ResultFrom(t.Context())
	require.False(t, ok)

	by := httptest.NewRecorder()
	limited, err := l.AllowN(t.Context(), "{inner:192.0.2.1}:rate", slow(10), 8)
	require.NoError(t, err)
	by.WriteHeader(http.StatusTooManyRequests)
	httplimit.SetHeaders(by.Header(), limiter.Results{limited}, "inner")
	require.Equal(t, headersOf(ask(inner, from("192.0.2.1")))[2:], headersOf(by)[2:])
	require.NotEmpty(t, by.Header().Get("Retry-After"))
}

// everybody is a KeyFunc: all requests share one funnel.
func everybody(*http.Request) string { return "" }

// A request takes tokens from all limits of its policy, and a slot, or nothing. The headers
// describe all limits.
func TestAlso(t *testing.T) {
	for name, c := range map[string]struct {
		options []httplimit.Option
		key     string // of the policy's own funnel
	}{
		"tokens": {nil, "{own:192.0.2.1}:rate"},
		"slots":  {[]httplimit.Option{httplimit.WithSlots(limiter.Slots{Max: 9, TTL: time.Second})}, "{own:192.0.2.1}:rate"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, cost := 0, 0
			l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
				if event.Result.Key == "{all:}:rate" {
					calls++
				}
			}))
			handler := httplimit.New(l, "own", slow(5), append(c.options,
				httplimit.WithCost(func(*http.Request) int { return cost }),
				httplimit.WithAlso("all", slow(8), everybody),
				httplimit.WithAlso("fast", limiter.PerSecond(100), everybody))...)(ok)
			for _, step := range []struct {
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
				{"192.0.2.1", 7, 413, `"own";r=2;t=259200 "all";r=0;t=604800 "fast";r=92;t=1`, "5 2", ""},
				{"192.0.2.1", 0, 200, `"own";r=2;t=259200 "all";r=0;t=691200 "fast";r=92;t=1`, "8 0", ""},
			} {
				cost, calls = step.cost, 0
				answer := ask(handler, from(step.address))
				synctest.Wait() // the slot is given back in the background
				header, body := answer.Header(), answer.Body.String()
				state := fmt.Sprintf("%s: a request of cost %d from %s: %d %q %v",
					name, step.cost, step.address, answer.Code, body, header)
				require.Equal(t, step.status, answer.Code, state)
				tokens, slots, _ := strings.Cut(strings.Join(header.Values("RateLimit"), " "), ` "own:slots"`)
				require.Equal(t, step.rateLimit, tokens, state)
				require.Equal(t, c.options == nil, slots == "", state)
				require.Equal(t, step.x, header.Get("X-RateLimit-Limit")+" "+header.Get("X-RateLimit-Remaining"), state)
				require.Equal(t, step.retry, header.Get("Retry-After"), state)
				isTooLarge := strings.HasPrefix(body, "request too large: it costs 7, and at most 5 can be granted")
				require.Equal(t, step.status == 413, isTooLarge, state)
				require.Equal(t, 1, calls, "calls of the Limiter for this request: %s", state)
			}
			result, err := l.Peek(t.Context(), c.key, slow(5))
			require.NoError(t, err)
			require.Equal(t, 2, result.Remaining, name)
			_, err = l.Charge(t.Context(), c.key, slow(5), 3)
			require.NoError(t, err)
			require.Equal(t, 429, ask(handler, from("192.0.2.1")).Code, "%s: no cost, of an overfull funnel", name)
		})
	}
}

// A handler can settle the tokens of all limits.
func TestResultsFrom(t *testing.T) {
	l := limiter.NewLocal()
	handler := httplimit.New(l, "default", slow(5), httplimit.WithAlso("all", slow(8), everybody))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			results := httplimit.ResultsFrom(r.Context())
			require.Equal(t, []string{"{default:192.0.2.1}:rate", "{all:}:rate"}, []string{results[0].Key, results[1].Key})
			own, ok := httplimit.ResultFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, results[0], own)
			for i := range results {
				_, err := l.Settle(r.Context(), &results[i], 3)
				require.NoError(t, err)
			}
		}))
	ask(handler, from("192.0.2.1"))
	ask(httplimit.New(l, "default", slow(5))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, 1, httplimit.ResultsFrom(r.Context())[0].Remaining)
	})), from("192.0.2.1"))
	result, err := l.Peek(t.Context(), httplimit.LimitKey("all", "", slow(8)), slow(8))
	require.NoError(t, err)
	require.Equal(t, 5, result.Remaining)
	require.Empty(t, httplimit.ResultsFrom(t.Context()))
}
