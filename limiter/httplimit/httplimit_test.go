// The middleware lets as many requests through as the funnel of their key holds, and says what it answers the others.

package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// As many requests reach the handler as the funnel of their key holds. Separators in the
// name are escaped: no other name and key are the same funnel.
func TestLimitedRequestsDoNotReachTheHandler(t *testing.T) {
	rdb := servertest.Start(t, servertest.Options{}).Client(t)
	reached := 0
	handler := httplimit.New(limiter.New(rdb, limiter.WithPrefix("app:")), slow(3), httplimit.WithName(`v2:re\ply`),
		httplimit.WithKey(httplimit.Join(httplimit.ByPath(), httplimit.ByIP())),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for i := range 5 {
		// Many addresses of one /64.
		got := ask(handler, from(fmt.Sprintf("2001:db8:0:1::%x", i)))
		require.Equal(t, i >= 3, got.Code == http.StatusTooManyRequests)
		require.Equal(t, min(i+1, 3), reached)
	}
	require.Equal(t, []string{`app:v2\:re\\ply:/|2001:db8:0:1::/64`}, rdb.Keys(context.Background(), "*").Val())
}

func TestCost(t *testing.T) { synctest.Test(t, testCost) }

func testCost(t *testing.T) {
	cost := 1
	handler := httplimit.New(limiter.NewLocal(), slow(5), httplimit.WithCost(func(*http.Request) int { return cost }))(ok)
	for _, step := range []struct {
		cost, status    int
		remaining, body string
	}{
		{0, http.StatusOK, "5", "ok"},
		{3, http.StatusOK, "2", "ok"},
		{3, http.StatusTooManyRequests, "2", "too many requests: try again in 86400 seconds\n"},
		{6, http.StatusRequestEntityTooLarge, "2", "request too large: it costs 6, and at most 5 can be granted\n"},
		{1 << 62, http.StatusRequestEntityTooLarge, "2", "request too large: it costs 4611686018427387904, and at most 5 can be granted\n"},
		{2, http.StatusOK, "0", "ok"},
		{0, http.StatusOK, "0", "ok"},
		{5, http.StatusTooManyRequests, "0", "too many requests: try again in 432000 seconds\n"},
	} {
		cost = step.cost
		got := ask(handler, from("192.0.2.1"))
		require.Equal(t, step.status, got.Code, "%+v", step)
		require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), "%+v", step)
		require.Equal(t, step.body, got.Body.String())
	}
}

func TestSkip(t *testing.T) {
	handler := httplimit.New(limiter.NewLocal(), slow(1),
		httplimit.WithSkip(func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.9:4711" }))(ok)
	for _, want := range []struct {
		address string
		status  int
	}{{"192.0.2.9", 200}, {"192.0.2.9", 200}, {"192.0.2.1", 200}, {"192.0.2.1", 429}} {
		got := ask(handler, from(want.address))
		require.Equal(t, want.status, got.Code)
		require.Equal(t, want.address == "192.0.2.9", got.Header().Get("RateLimit") == "")
	}
}

// Errors of Redis are answered 503, those of the application 500, where a retry would
// not help. A client that has gone is neither; beyond the deadline of a request, the
// client still waits.
func TestErrors(t *testing.T) {
	gone, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("gone"))
	late, cancelLate := context.WithDeadline(context.Background(), time.Now())
	defer cancelLate()
	const internal, unchecked = "Internal Server Error\n", "rate limits cannot be checked: try again in 1 second\n"
	negative := httplimit.WithCost(func(*http.Request) int { return -1 })
	invalid := httplimit.WithLimit(func(*http.Request) limiter.Limit { return limiter.PerSecond(-1) })
	for _, test := range []struct {
		name                  string
		l                     *limiter.Limiter
		ctx                   context.Context
		option                httplimit.Option
		status                int
		retryAfter, body, log string
	}{
		{"no Redis", limiter.New(unreachable(t)), t.Context(), httplimit.WithKey(httplimit.ByPath()), 503, "1", unchecked, "127.0.0.1:1"},
		{"late", limiter.NewLocal(), late, httplimit.WithKey(httplimit.ByPath()), 503, "1", unchecked, "context deadline exceeded"},
		{"gone", limiter.NewLocal(), gone, httplimit.WithKey(httplimit.ByPath()), 499, "", "", ""},
		{"negative cost", limiter.NewLocal(), t.Context(), negative, 500, "", internal, gcra.ErrQuantity.Error()},
		{"invalid limit", limiter.NewLocal(), t.Context(), invalid, 500, "", internal, "-1 per second"},
	} {
		t.Run(test.name, func(t *testing.T) {
			previous, log := slog.Default(), new(strings.Builder)
			defer slog.SetDefault(previous)
			slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
			options := []httplimit.Option{test.option, httplimit.WithName("reply")}
			got := ask(httplimit.New(test.l, slow(1), options...)(unreachableHandler(t)), from("192.0.2.1").WithContext(test.ctx))
			require.Equal(t, test.status, got.Code)
			require.Equal(t, test.body, got.Body.String(), "clients do not get the cause")
			require.Equal(t, test.retryAfter, got.Header().Get("Retry-After"))
			require.Empty(t, got.Header().Values("RateLimit"), "there is no result")
			require.Contains(t, log.String(), test.log)
			require.Equal(t, test.log != "", strings.Contains(log.String(), "policy=reply"))

			var cause error
			options = append(options, httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
				cause = err
				w.WriteHeader(http.StatusTeapot)
			}))
			got = ask(httplimit.New(test.l, slow(1), options...)(unreachableHandler(t)), from("192.0.2.1").WithContext(test.ctx))
			if test.status == 499 {
				require.Equal(t, 499, got.Code)
				require.NoError(t, cause)
				return
			}
			require.Equal(t, http.StatusTeapot, got.Code)
			require.ErrorContains(t, cause, test.log)
		})
	}
}

// A policy in shadow mode lets all requests through, with the headers of what is known.
func TestShadow(t *testing.T) {
	reported := 0
	l := limiter.Shadow(limiter.NewLocal(), func(context.Context, limiter.Result, error) { reported++ })
	for i, row := range []struct {
		cost      int
		limit     limiter.Limit
		rateLimit string
	}{
		{1, slow(1), `"default";r=0;t=86400`}, // is allowed; the others are not
		{1, slow(1), `"default";r=0;t=86400`},
		{math.MaxInt, slow(1), `"default";r=0;t=86400`},
		{-1, slow(1), ""},
		{0, limiter.PerSecond(-1), ""},
		{1, limiter.PerSecond(-1), ""},
	} {
		got := ask(httplimit.New(l, slow(9), httplimit.WithCost(func(*http.Request) int { return row.cost }),
			httplimit.WithLimit(func(*http.Request) limiter.Limit { return row.limit }))(ok), from("192.0.2.1"))
		require.Equal(t, []any{200, "ok", "", row.rateLimit, i},
			[]any{got.Code, got.Body.String(), got.Header().Get("Retry-After"), got.Header().Get("RateLimit"), reported}, row)
	}
}

// So handlers can flush, hijack and set deadlines as without the middleware.
func TestHandlersGetTheWriterAndTheRequestThemselves(t *testing.T) {
	recorder, request := httptest.NewRecorder(), from("192.0.2.1")
	httplimit.New(limiter.NewLocal(), slow(1))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, recorder, w)
		require.Same(t, request, r)
		w.WriteHeader(http.StatusAccepted)
	})).ServeHTTP(recorder, request)
	require.Equal(t, http.StatusAccepted, recorder.Code)
}

func TestNewPanics(t *testing.T) {
	l := limiter.NewLocal()
	for _, none := range []limiter.Allower{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "httplimit: New needs a Limiter, not nil", func() { httplimit.New(none, slow(1)) })
	}
	require.PanicsWithValue(t, "httplimit: New needs a valid limit, not 0 per day, burst 0: "+gcra.ErrCount.Error(),
		func() { httplimit.New(l, limiter.Per(0, 24*time.Hour)) })
	require.PanicsWithValue(t, "httplimit: WithKey needs a KeyFunc, not nil", func() { httplimit.New(l, slow(1), httplimit.WithKey(nil)) })
	require.PanicsWithValue(t, "httplimit: a policy's name must not be empty", func() { httplimit.WithName("") })
	for _, name := range []string{"漏斗", "a\nb", "\x7f", "\x1f"} {
		require.Panics(t, func() { httplimit.WithName(name) }, name)
	}
	require.NotPanics(t, func() { httplimit.WithName(" ~") })
}
