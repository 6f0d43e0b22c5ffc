package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

func TestLimitedRequestsDoNotReachTheHandler(t *testing.T) {
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		reached := 0
		limit := httplimit.New(limiter.New(rdb), slow(3))
		handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
		for i := range 5 {
			want := http.StatusOK
			if i >= 3 {
				want = http.StatusTooManyRequests
			}
			require.Equal(t, want, ask(handler, from("192.0.2.1")).Code)
		}
		require.Equal(t, 3, reached)
		require.Equal(t, http.StatusOK, ask(handler, from("192.0.2.2")).Code, "another address has a funnel of its own")
	})
}

func TestKeyInRedis(t *testing.T) {
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		l := limiter.New(rdb, limiter.WithPrefix("app:"))
		ask(httplimit.New(l, slow(3), httplimit.WithName("reply"))(ok), from("192.0.2.1"))
		keys, err := rdb.Keys(context.Background(), "*").Result()
		require.NoError(t, err)
		require.Equal(t, []string{"app:reply:192.0.2.1"}, keys)
	})
}

func TestCost(t *testing.T) {
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		cost := 1
		handler := httplimit.New(limiter.New(rdb), slow(5),
			httplimit.WithCost(func(*http.Request) int { return cost }))(ok)
		step := func(tokens, status int, remaining string) *httptest.ResponseRecorder {
			t.Helper()
			cost = tokens
			got := ask(handler, from("192.0.2.1"))
			require.Equal(t, status, got.Code)
			require.Equal(t, remaining, got.Header().Get("X-RateLimit-Remaining"))
			return got
		}
		step(0, http.StatusOK, "5")
		step(3, http.StatusOK, "2")
		step(3, http.StatusTooManyRequests, "2")
		tooLarge := step(6, http.StatusRequestEntityTooLarge, "2")
		require.Empty(t, tooLarge.Header().Values("Retry-After"))
		require.Equal(t, "request too large: it costs 6, and at most 5 can be granted\n", tooLarge.Body.String())
		step(2, http.StatusOK, "0")
		step(0, http.StatusOK, "0")
		step(1, http.StatusTooManyRequests, "0")
	})
}

func TestSkip(t *testing.T) {
	l := inProcess(t)
	handler := httplimit.New(l, slow(1),
		httplimit.WithSkip(func(r *http.Request) bool { return r.URL.Path == "/health" }))(ok)
	for range 3 {
		got := ask(handler, httptest.NewRequest(http.MethodGet, "/health", nil))
		require.Equal(t, http.StatusOK, got.Code)
		require.Empty(t, got.Header().Values("RateLimit"))
	}
	require.Zero(t, l.Stats(), "skipped requests reach no server")
	require.Equal(t, http.StatusOK, ask(handler, from("192.0.2.1")).Code)
	require.Equal(t, http.StatusTooManyRequests, ask(handler, from("192.0.2.1")).Code)
}

func TestOnLimited(t *testing.T) {
	handler := httplimit.New(inProcess(t), slow(1),
		httplimit.OnLimited(func(w http.ResponseWriter, r *http.Request, result limiter.Result) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(httplimit.Status(result))
			io.WriteString(w, `{"error":"slow down"}`)
		}))(ok)
	ask(handler, from("192.0.2.1"))
	got := ask(handler, from("192.0.2.1"))
	require.Equal(t, http.StatusTooManyRequests, got.Code)
	require.Equal(t, "86400", got.Header().Get("Retry-After"))
	require.Equal(t, `{"error":"slow down"}`, got.Body.String())
}

// captureLog collects what is logged by default, until the test ends.
func captureLog(t *testing.T) *strings.Builder {
	previous := slog.Default()
	t.Cleanup(func() { slog.SetDefault(previous) })
	log := new(strings.Builder)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	return log
}

func TestErrorsAreAnswered503AndLogged(t *testing.T) {
	log := captureLog(t)
	handler := httplimit.New(limiter.New(unreachable(t)), slow(1), httplimit.WithName("reply"))(unreachableHandler(t))
	got := ask(handler, from("192.0.2.1"))
	require.Equal(t, http.StatusServiceUnavailable, got.Code)
	require.Equal(t, "1", got.Header().Get("Retry-After"))
	require.Empty(t, got.Header().Values("RateLimit"), "there is no result")
	require.NotContains(t, got.Body.String(), "127.0.0.1", "clients do not get the cause")
	require.Contains(t, log.String(), "127.0.0.1:1")
	require.Contains(t, log.String(), "policy=reply")
}

func TestErrorsOfTheApplicationAreAnswered500(t *testing.T) {
	for name, option := range map[string]httplimit.Option{
		"negative cost": httplimit.WithCost(func(*http.Request) int { return -1 }),
		"invalid limit": httplimit.WithLimit(func(*http.Request) limiter.Limit { return limiter.PerSecond(-1) }),
	} {
		t.Run(name, func(t *testing.T) {
			captureLog(t)
			got := ask(httplimit.New(inProcess(t), slow(1), option)(unreachableHandler(t)), from("192.0.2.1"))
			require.Equal(t, http.StatusInternalServerError, got.Code)
			require.Empty(t, got.Header().Values("Retry-After"), "a retry would not help")
		})
	}
}

func TestOnError(t *testing.T) {
	var cause error
	handler := httplimit.New(inProcess(t), slow(1),
		httplimit.WithCost(func(*http.Request) int { return -1 }),
		httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
			cause = err
			w.WriteHeader(http.StatusTeapot)
		}))(unreachableHandler(t))
	require.Equal(t, http.StatusTeapot, ask(handler, from("192.0.2.1")).Code)
	require.ErrorIs(t, cause, gcra.ErrQuantity)
}

// unreachableHandler fails the test when a request gets to it.
func unreachableHandler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was reached") })
}

// A client that has gone is neither an error of Redis nor a success.
func TestCanceledRequest(t *testing.T) {
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		log := captureLog(t)
		handler := httplimit.New(limiter.New(rdb), slow(1),
			httplimit.OnError(func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }),
		)(unreachableHandler(t))
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("gone"))
		got := ask(handler, from("192.0.2.1").WithContext(ctx))
		require.Equal(t, 499, got.Code)
		require.Empty(t, got.Body.String())
		require.Empty(t, got.Header())
		require.Empty(t, log.String())
	})
}

// A request beyond its deadline has a client that still waits.
func TestRequestBeyondItsDeadline(t *testing.T) {
	captureLog(t)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	handler := httplimit.New(inProcess(t), slow(1))(unreachableHandler(t))
	require.Equal(t, http.StatusServiceUnavailable, ask(handler, from("192.0.2.1").WithContext(ctx)).Code)
}

func TestHandlersGetTheWriterAndTheRequestThemselves(t *testing.T) {
	recorder, request := httptest.NewRecorder(), from("192.0.2.1")
	httplimit.New(inProcess(t), slow(1))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, recorder, w)
		require.Same(t, request, r)
		w.WriteHeader(http.StatusAccepted)
	})).ServeHTTP(recorder, request)
	require.Equal(t, http.StatusAccepted, recorder.Code)
}

func TestHandlersCanFlush(t *testing.T) {
	sent := make(chan struct{})
	server := serve(t, httplimit.New(inProcess(t), slow(1))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-sent
		io.WriteString(w, "second\n")
	})))
	got, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer got.Body.Close()
	lines := bufio.NewReader(got.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line, "before the handler has returned")
	close(sent)
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "second\n", line)
}

func TestHandlersCanHijack(t *testing.T) {
	server := serve(t, httplimit.New(inProcess(t), slow(1))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(connection, "HTTP/1.1 299 Hijacked\r\nConnection: close\r\n\r\n")
			connection.Close()
		}
	})))
	require.Equal(t, 299, get(t, server).StatusCode)
}

func TestNewPanics(t *testing.T) {
	l := inProcess(t)
	require.PanicsWithValue(t, "httplimit: New needs a Limiter, not nil", func() { httplimit.New(nil, slow(1)) })
	require.PanicsWithValue(t, "httplimit: New needs a valid limit, not 0 per day, burst 0: capacity must be at least 1",
		func() { httplimit.New(l, limiter.PerDay(0)) })
	require.PanicsWithValue(t, "httplimit: a policy's name must not be empty", func() { httplimit.WithName("") })
	for _, name := range []string{"漏斗", "a\nb", "\x7f", "\x00"} {
		require.Panics(t, func() { httplimit.WithName(name) }, name)
	}
}
