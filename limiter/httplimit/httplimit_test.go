// The middleware lets as many requests through as the funnel of their key holds, and says what it answers the others.
// In shadow mode it lets all of them through.

package httplimit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// slow is a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.Per(1, 24*time.Hour).WithCapacity(capacity) }

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

func from(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = net.JoinHostPort(address, "4711")
	return r
}

func unreachable(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func TestRequests(t *testing.T) { synctest.Test(t, testRequests) }

func testRequests(t *testing.T) {
	l, cost := limiter.NewLocal(), 0
	policy := func(l limiter.Allower) http.Handler {
		return httplimit.New(l, slow(5), httplimit.WithName(`v2:re\ply`),
			httplimit.WithCost(func(*http.Request) int { return cost }),
			httplimit.WithSkip(func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.9:4711" }))(ok)
	}
	handler, shadow := policy(l), policy(limiter.Shadow(l, func(context.Context, limiter.Result, error) {}))
	for _, step := range []struct {
		name, address   string
		cost, status    int
		remaining, body string
	}{
		{"no cost", "192.0.2.1", 0, 200, "5", "ok"},
		{"some of the tokens", "192.0.2.1", 3, 200, "2", "ok"},
		{"too many", "192.0.2.1", 3, 429, "2", "too many requests: try again in 86400 seconds\n"},
		{"more than fit, ever", "192.0.2.1", 1 << 62, 413, "2",
			"request too large: it costs 4611686018427387904, and at most 5 can be granted\n"},
		{"the others", "192.0.2.1", 2, 200, "0", "ok"},
		{"no cost, when the funnel is full", "192.0.2.1", 0, 200, "0", "ok"},
		{"all of the tokens", "192.0.2.1", 5, 429, "0", "too many requests: try again in 432000 seconds\n"},
		{"another address", "192.0.2.2", 1, 200, "4", "ok"},
		{"skipped", "192.0.2.9", 5, 200, "", "ok"},
		{"skipped again", "192.0.2.9", 5, 200, "", "ok"},
	} {
		cost = step.cost
		got := ask(handler, from(step.address))
		require.Equal(t, step.status, got.Code, step.name)
		require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), step.name)
		require.Equal(t, step.body, got.Body.String())
		if step.status != 200 {
			got = ask(shadow, from(step.address))
			require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), step.name)
			require.Empty(t, got.Header().Get("Retry-After"))
			require.Equal(t, "ok", got.Body.String())
		}
	}

	own := httplimit.New(l, slow(5), httplimit.WithName(`v2:re\ply`),
		httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
			http.Error(w, result.RetryAfter.String(), httplimit.Status(result))
		}))(ok)
	got := ask(own, from("192.0.2.1"))
	require.Equal(t, []any{429, "24h0m0s\n", "86400"}, []any{got.Code, got.Body.String(), got.Header().Get("Retry-After")},
		"an answer of its own, after the headers")

	// Separators in the name are escaped: no other name and key are the same funnel.
	result, err := l.Peek(t.Context(), `v2\:re\\ply:192.0.2.1`, slow(5))
	require.NoError(t, err)
	require.Zero(t, result.Remaining)
}

// A request that no waiting helps is too large, or its quota has ended.
func TestAnswersWithoutRetry(t *testing.T) {
	const tooLarge = "request too large: it costs 6, and at most 5 can be granted\n"
	for _, c := range []struct {
		limit  limiter.Limit
		cost   int
		status int
		body   string
	}{
		{limiter.Daily(5, time.UTC), 6, 413, tooLarge},
		{limiter.Until(5, time.Now().Add(time.Hour)), 6, 413, tooLarge},
		{limiter.Until(5, time.Now()), 5, 429, "too many requests: the quota has ended\n"},
	} {
		cost := httplimit.WithCost(func(*http.Request) int { return c.cost })
		got := ask(httplimit.New(limiter.NewLocal(), c.limit, cost)(ok), from("192.0.2.1"))
		require.Equal(t, c.status, got.Code, "%d of %v", c.cost, c.limit)
		require.Equal(t, c.body, got.Body.String(), "%d of %v", c.cost, c.limit)
		require.Empty(t, got.Header().Values("Retry-After"), "%d of %v", c.cost, c.limit)
	}
}

// Errors of Redis are answered 503, and errors of the application 500, since a retry would
// not help. A client that has gone is neither; beyond the deadline of a request, the
// client still waits.
func TestErrors(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	late, cancelLate := context.WithDeadline(t.Context(), time.Now())
	defer cancelLate()
	const internal, unchecked = "Internal Server Error\n", "rate limits cannot be checked: try again in 1 second\n"
	for name, test := range map[string]struct {
		l                     *limiter.Limiter
		ctx                   context.Context
		cost                  int
		limit                 limiter.Limit
		status                int
		retryAfter, body, log string
	}{
		"no Redis":      {limiter.New(unreachable(t)), t.Context(), 1, slow(1), 503, "1", unchecked, "127.0.0.1:1"},
		"late":          {limiter.NewLocal(), late, 1, slow(1), 503, "1", unchecked, "context deadline exceeded"},
		"gone":          {limiter.NewLocal(), gone, 1, slow(1), 499, "", "", ""},
		"negative cost": {limiter.NewLocal(), t.Context(), -1, slow(1), 500, "", internal, gcra.ErrQuantity.Error()},
		"invalid limit": {limiter.NewLocal(), t.Context(), 1, limiter.PerSecond(-1), 500, "", internal, "-1 per second"},
	} {
		t.Run(name, func(t *testing.T) {
			previous, log := slog.Default(), new(strings.Builder)
			defer slog.SetDefault(previous)
			slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
			serve := func(l limiter.Allower, next http.Handler, options ...httplimit.Option) *httptest.ResponseRecorder {
				options = append(options, httplimit.WithName("reply"),
					httplimit.WithCost(func(*http.Request) int { return test.cost }),
					httplimit.WithLimit(func(*http.Request) limiter.Limit { return test.limit }))
				return ask(httplimit.New(l, slow(1), options...)(next), from("192.0.2.1").WithContext(test.ctx))
			}
			got := serve(test.l, ok)
			require.Equal(t, test.status, got.Code)
			require.Equal(t, test.body, got.Body.String(), "neither the handler's answer nor the cause")
			require.Equal(t, test.retryAfter, got.Header().Get("Retry-After"))
			require.Empty(t, got.Header().Values("RateLimit"), "there is no result")
			require.Contains(t, log.String(), test.log)
			require.Equal(t, test.log != "", strings.Contains(log.String(), "policy=reply"))

			got = serve(limiter.Shadow(test.l, nil), ok)
			require.Equal(t, "ok", got.Body.String())
			require.Empty(t, got.Header().Values("RateLimit"), "there is no result")

			got = serve(test.l, ok, httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusTeapot)
			}))
			require.Equal(t, test.log != "", got.Code == http.StatusTeapot, "unless the client has gone")
			require.Contains(t, got.Body.String(), test.log)
		})
	}
}

func TestNewPanics(t *testing.T) {
	l := limiter.NewLocal()
	for _, none := range []limiter.Allower{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "httplimit: New needs a Limiter, not nil", func() { httplimit.New(none, slow(1)) })
	}
	require.PanicsWithValue(t, "httplimit: New needs a valid limit, not 0 per day, capacity 0: "+gcra.ErrCount.Error(),
		func() { httplimit.New(l, limiter.Per(0, 24*time.Hour)) })
	require.PanicsWithValue(t, "httplimit: WithKey needs a KeyFunc, not nil",
		func() { httplimit.New(l, slow(1), httplimit.WithKey(nil)) })
	require.PanicsWithValue(t, "httplimit: a policy's name must not be empty", func() { httplimit.WithName("") })
	for _, name := range []string{"漏斗", "\x7f", "\x1f"} {
		require.Panics(t, func() { httplimit.WithName(name) }, name)
	}
	require.NotPanics(t, func() { httplimit.WithName(" ~") })
}
