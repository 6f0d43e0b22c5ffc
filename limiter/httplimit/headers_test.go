package httplimit_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// The table of README.md, section "HTTP headers", at one instant of the server.
func TestHeadersAreThoseOfTheReadme(t *testing.T) {
	rdb := atOneInstant(t)
	limit := httplimit.New(limiter.New(rdb), limiter.PerMinute(30).Burst(15), httplimit.WithName("reply"))
	server := serve(t, limit(ok))

	first := get(t, server)
	require.Equal(t, map[string]string{
		"status":                "200",
		"RateLimit-Policy":      `"reply";q=15;w=30`,
		"RateLimit":             `"reply";r=14;t=2`,
		"X-RateLimit-Limit":     "15",
		"X-RateLimit-Remaining": "14",
		"X-RateLimit-Reset":     "2",
	}, headersOf(first))
	require.Equal(t, "ok", first.body)
	requireWellFormed(t, first, "reply")

	for range 14 {
		got := get(t, server)
		require.Equal(t, http.StatusOK, got.StatusCode)
		requireWellFormed(t, got, "reply")
	}

	limited := get(t, server)
	require.Equal(t, map[string]string{
		"status":                "429",
		"Retry-After":           "2",
		"RateLimit-Policy":      `"reply";q=15;w=30`,
		"RateLimit":             `"reply";r=0;t=2`,
		"X-RateLimit-Limit":     "15",
		"X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset":     "30",
	}, headersOf(limited))
	require.Equal(t, "too many requests: try again in 2 seconds\n", limited.body)
	require.Equal(t, "text/plain; charset=utf-8", limited.Header.Get("Content-Type"))
	requireWellFormed(t, limited, "reply")

	// A client that waits for Retry-After is allowed; a nanosecond less is too early.
	setClock(t, rdb, epoch.Add(2*time.Second-1))
	require.Equal(t, http.StatusTooManyRequests, get(t, server).StatusCode)
	setClock(t, rdb, epoch.Add(2*time.Second))
	require.Equal(t, http.StatusOK, get(t, server).StatusCode)
}

// For any limit, cost and path, the headers are well formed, agree with each other, and
// follow from the result.
func TestHeadersForAnyLimit(t *testing.T) {
	limits := []limiter.Limit{
		limiter.PerSecond(1),
		limiter.PerSecond(1_000_000).Burst(1),
		limiter.Per(3, 700*time.Millisecond).Burst(7),
		limiter.PerMinute(7).Burst(100),
		limiter.PerDay(1).Burst(1000),
		limiter.PerSecond(1_000_000_000).Burst(9_000_000_000_000_000_000), // beyond the Integers of structured fields
	}
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter.New(rdb)
		for i, limit := range limits {
			for _, cost := range []int{0, 1, 2, 1000} {
				t.Run(fmt.Sprint(limit, ", cost ", cost), func(t *testing.T) {
					var last limiter.Result
					name := fmt.Sprintf("policy %d, \"cost\" \\%d", i, cost)
					server := serve(t, httplimit.New(l, limit,
						httplimit.WithName(name),
						httplimit.WithCost(func(*http.Request) int { return cost }),
						httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
							last = result
							w.WriteHeader(httplimit.Status(result))
						}))(ok))
					for range 3 {
						got := get(t, server)
						requireWellFormed(t, got, name)
						switch {
						case cost > limit.Capacity():
							require.Equal(t, http.StatusRequestEntityTooLarge, got.StatusCode)
						case cost == 0:
							require.Equal(t, http.StatusOK, got.StatusCode)
						}
						if got.StatusCode == http.StatusTooManyRequests {
							after, err := strconv.Atoi(got.Header.Get("Retry-After"))
							require.NoError(t, err)
							require.GreaterOrEqual(t, time.Duration(after)*time.Second, last.RetryAfter)
							require.Less(t, time.Duration(after-1)*time.Second, last.RetryAfter)
						}
					}
				})
			}
		}
	})
}

// A request that passes several policies gets the headers of all of them.
func TestHeadersOfSeveralPolicies(t *testing.T) {
	l := limiter.New(atOneInstant(t))
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
	require.Equal(t, want, headersOf(get(t, serve(t, perAddress(perAccount(ok))))))

	// The other way round, the outer one has the least remaining.
	want["RateLimit-Policy"] = `"account";q=2;w=2, "address";q=3;w=3`
	want["RateLimit"] = `"account";r=0;t=2, "address";r=1;t=2`
	want["X-RateLimit-Remaining"] = "0"
	want["X-RateLimit-Reset"] = "2"
	require.Equal(t, want, headersOf(get(t, serve(t, perAccount(perAddress(ok))))))
}

func TestHeadersOfALimitPerRequest(t *testing.T) {
	l := limiter.New(atOneInstant(t))
	plans := map[string]limiter.Limit{"pro": limiter.PerSecond(10).Burst(100)}
	server := serve(t, httplimit.New(l, limiter.PerSecond(1).Burst(5),
		httplimit.WithKey(httplimit.ByHeader("Plan", nil)),
		httplimit.WithLimit(func(r *http.Request) limiter.Limit { return plans[r.Header.Get("Plan")] }))(ok))

	require.Equal(t, `"default";q=100;w=10`, get(t, server, setHeader("Plan", "pro")).Header.Get("RateLimit-Policy"))
	require.Equal(t, `"default";q=5;w=5`, get(t, server, setHeader("Plan", "free")).Header.Get("RateLimit-Policy"))
}
