// Headers are those of docs/go.md: of each policy that a request passes, and of the one with the least remaining.

package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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

// Numbers are rounded up, and stay within the Integers of structured fields (RFC 9651). Names are quoted. With a cost of 0,
// and where it never fits, t is that of the reset.
func TestHeadersForAnyLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limit                         limiter.Limit
		costs                         []int
		policy, rateLimit, retryAfter string // of the last request
	}{
		"milliseconds":      {limiter.Per(3, 700*time.Millisecond).Burst(7), []int{1}, ";q=7;w=2", ";r=6;t=1", ""},
		"limited for 40 ms": {limiter.Per(1, 20*time.Millisecond).Burst(2), []int{2, 2}, ";q=2;w=1", ";r=0;t=1", "1"},
		"of no cost":        {limiter.PerMinute(7).Burst(100), []int{100, 0}, ";q=100;w=858", ";r=0;t=858", ""},
		"never fits":        {limiter.PerMinute(60).Burst(4), []int{3, 5}, ";q=4;w=4", ";r=1;t=3", ""},
		"large":             {limiter.PerSecond(1e9).Burst(9e18), []int{1}, ";q=999999999999999;w=9000000000", ";r=999999999999999;t=1", ""},
		`qu"ot\ed`:          {limiter.Per(1, 24*time.Hour).Burst(1000), []int{999}, ";q=1000;w=86400000", ";r=1;t=86313600", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var last *httptest.ResponseRecorder
			l := limiter.NewLocal()
			for _, cost := range c.costs {
				last = ask(httplimit.New(l, c.limit, httplimit.WithName(name), httplimit.WithCost(func(*http.Request) int { return cost }))(ok), from("192.0.2.1"))
			}
			got, quoted := headersOf(last), `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"`
			require.Equal(t, []string{quoted + c.policy, quoted + c.rateLimit, c.retryAfter},
				[]string{got["RateLimit-Policy"], got["RateLimit"], got["Retry-After"]}, name)
		})
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
