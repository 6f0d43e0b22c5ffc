package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// headersOf are those that the middleware sets, and the status, for comparisons.
func headersOf(got *httptest.ResponseRecorder) map[string]string {
	all := map[string]string{"status": fmt.Sprint(got.Code)}
	for _, name := range []string{
		"Retry-After", "RateLimit-Policy", "RateLimit",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	} {
		if values := got.Header().Values(name); len(values) > 0 {
			all[name] = strings.Join(values, ", ")
		}
	}
	return all
}

// The table of docs/go.md, section "Headers", at one instant of the server.
func TestHeadersAreThoseOfThePage(t *testing.T) {
	rdb, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	handler := httplimit.New(limiter.New(rdb), limiter.PerMinute(30).Burst(15), httplimit.WithName("reply"))(ok)
	require.Equal(t, map[string]string{
		"status":                "200",
		"RateLimit-Policy":      `"reply";q=15;w=30`,
		"RateLimit":             `"reply";r=14;t=2`,
		"X-RateLimit-Limit":     "15",
		"X-RateLimit-Remaining": "14",
		"X-RateLimit-Reset":     "2",
	}, headersOf(ask(handler, from("192.0.2.1"))))
	for range 14 {
		require.Equal(t, http.StatusOK, ask(handler, from("192.0.2.1")).Code)
	}
	limited := ask(handler, from("192.0.2.1"))
	require.Equal(t, map[string]string{
		"status":                "429",
		"Retry-After":           "2",
		"RateLimit-Policy":      `"reply";q=15;w=30`,
		"RateLimit":             `"reply";r=0;t=2`,
		"X-RateLimit-Limit":     "15",
		"X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset":     "30",
	}, headersOf(limited))
	require.Equal(t, "too many requests: try again in 2 seconds\n", limited.Body.String())
	require.Equal(t, "text/plain; charset=utf-8", limited.Header().Get("Content-Type"))

	// A client that waits for Retry-After is allowed; a nanosecond less is too early.
	clock.Set(t, servertest.Epoch.Add(2*time.Second-1))
	require.Equal(t, http.StatusTooManyRequests, ask(handler, from("192.0.2.1")).Code)
	clock.Set(t, servertest.Epoch.Add(2*time.Second))
	require.Equal(t, http.StatusOK, ask(handler, from("192.0.2.1")).Code)
}

// A member of a list of structured fields (RFC 9651), of the kind that the draft has:
// a String with two parameters that are Integers.
var member = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)";([a-z]+)=([0-9]{1,15});([a-z]+)=([0-9]{1,15})$`)

// requireWellFormed requires what holds for any answer with headers, by the draft and
// by the table of docs/go.md.
func requireWellFormed(t testing.TB, got *httptest.ResponseRecorder, name string) {
	t.Helper()
	number := func(text string) int {
		number, err := strconv.Atoi(text)
		require.NoError(t, err)
		return number
	}
	header := func(name string) int { return number(got.Header().Get(name)) }
	parameters := func(header, first, second string) (int, int) {
		match := member.FindStringSubmatch(got.Header().Get(header))
		require.NotNil(t, match, "%s: %s", header, got.Header().Get(header))
		require.Equal(t, name, strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(match[1]))
		require.Equal(t, []string{first, second}, []string{match[2], match[4]})
		return number(match[3]), number(match[5])
	}
	quota, window := parameters("RateLimit-Policy", "q", "w")
	remaining, again := parameters("RateLimit", "r", "t")
	require.Positive(t, window)
	require.Equal(t, quota, header("X-RateLimit-Limit"))
	require.Equal(t, remaining, header("X-RateLimit-Remaining"))
	require.LessOrEqual(t, remaining, quota)
	require.LessOrEqual(t, header("X-RateLimit-Reset"), window)
	if got.Code == http.StatusTooManyRequests {
		require.Equal(t, again, header("Retry-After"))
		require.Positive(t, again)
	} else {
		require.Empty(t, got.Header().Values("Retry-After"))
		require.Equal(t, again, header("X-RateLimit-Reset"))
	}
}

// For any limit and cost, the headers are well formed, agree with each other, and
// follow from the result.
func TestHeadersForAnyLimit(t *testing.T) { synctest.Test(t, testHeadersForAnyLimit) }

func testHeadersForAnyLimit(t *testing.T) {
	l := limiter.NewLocal()
	for i, limit := range []limiter.Limit{
		limiter.PerSecond(1),
		limiter.PerSecond(1_000_000).Burst(1),
		limiter.Per(3, 700*time.Millisecond).Burst(7),
		limiter.PerMinute(7).Burst(100),
		limiter.Per(1, 24*time.Hour).Burst(1000),
		limiter.PerSecond(1_000_000_000).Burst(9_000_000_000_000_000_000), // beyond the Integers of structured fields
	} {
		for _, cost := range []int{0, 1, 2, 1000} {
			var last limiter.Result
			name := fmt.Sprintf("policy %d, \"cost\" \\%d", i, cost)
			handler := httplimit.New(l, limit,
				httplimit.WithName(name),
				httplimit.WithCost(func(*http.Request) int { return cost }),
				httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
					last = result
					w.WriteHeader(httplimit.Status(result))
				}))(ok)
			for range 3 {
				got := ask(handler, from("192.0.2.1"))
				requireWellFormed(t, got, name)
				switch {
				case cost > limit.Capacity:
					require.Equal(t, http.StatusRequestEntityTooLarge, got.Code)
				case cost == 0:
					require.Equal(t, http.StatusOK, got.Code)
				case got.Code == http.StatusTooManyRequests:
					after, err := strconv.Atoi(got.Header().Get("Retry-After"))
					require.NoError(t, err)
					require.Equal(t, int((last.RetryAfter+time.Second-1)/time.Second), after, "rounded up")
				}
			}
		}
	}
}

// A request that passes several policies gets the headers of all of them.
func TestHeadersOfSeveralPolicies(t *testing.T) { synctest.Test(t, testHeadersOfSeveralPolicies) }

func testHeadersOfSeveralPolicies(t *testing.T) {
	l := limiter.NewLocal()
	perAddress := httplimit.New(l, limiter.PerMinute(60).Burst(3), httplimit.WithName("address"))
	perAccount := httplimit.New(l, limiter.PerHour(3600).Burst(2), httplimit.WithName("account"))
	want := map[string]string{
		"status":                "200",
		"RateLimit-Policy":      `"address";q=3;w=3, "account";q=2;w=2`,
		"RateLimit":             `"address";r=2;t=1, "account";r=1;t=1`,
		"X-RateLimit-Limit":     "2",
		"X-RateLimit-Remaining": "1",
		"X-RateLimit-Reset":     "1",
	}
	require.Equal(t, want, headersOf(ask(perAddress(perAccount(ok)), from("192.0.2.1"))))

	// The other way round, the outer one has the least remaining.
	want["RateLimit-Policy"] = `"account";q=2;w=2, "address";q=3;w=3`
	want["RateLimit"] = `"account";r=0;t=2, "address";r=1;t=2`
	want["X-RateLimit-Remaining"] = "0"
	want["X-RateLimit-Reset"] = "2"
	require.Equal(t, want, headersOf(ask(perAccount(perAddress(ok)), from("192.0.2.1"))))
}

// The zero Limit is that of New.
func TestHeadersOfALimitPerRequest(t *testing.T) {
	plans := map[string]limiter.Limit{"192.0.2.1": limiter.PerSecond(10).Burst(100)}
	handler := httplimit.New(limiter.NewLocal(), limiter.PerSecond(1).Burst(5),
		httplimit.WithLimit(func(r *http.Request) limiter.Limit { return plans[httplimit.ByIP()(r)] }))(ok)
	require.Equal(t, `"default";q=100;w=10`, ask(handler, from("192.0.2.1")).Header().Get("RateLimit-Policy"))
	require.Equal(t, `"default";q=5;w=5`, ask(handler, from("192.0.2.2")).Header().Get("RateLimit-Policy"))
}
