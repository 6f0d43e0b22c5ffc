// The middleware lets as many requests through as the funnel of their key allows, and answers all other requests
// itself. In shadow mode it lets all requests through.

package httplimit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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

// slow returns a limit whose funnel leaks nothing while a test runs.
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

// The server removes the files of a form that the handler has parsed.
func TestFilesOfForms(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	server := httptest.NewServer(httplimit.New(limiter.NewLocal(), slow(1))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.ParseMultipartForm(0) })))
	const body = "--x\r\nContent-Disposition: form-data; name=a; filename=a\r\n\r\ntext\r\n--x--\r\n"
	_, err := http.Post(server.URL, "multipart/form-data; boundary=x", strings.NewReader(body))
	require.NoError(t, err)
	server.Close()
	files, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestRequests(t *testing.T) { synctest.Test(t, testRequests) }

func testRequests(t *testing.T) {
	l, cost := limiter.NewLocal(), 0
	policy := func(l limiter.Allower) http.Handler {
		return httplimit.New(l, slow(5), httplimit.WithName(`v2:re\ply`),
			httplimit.WithCost(func(*http.Request) int { return cost }),
			httplimit.WithLimit(func(r *http.Request) limiter.Limit {
				return map[string]limiter.Limit{ // others have the limit of New
					"192.0.2.7:4711": limiter.Daily(5, time.UTC), "192.0.2.8:4711": limiter.Until(5, time.Now()),
				}[r.RemoteAddr]
			}),
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
		{"more than a quota", "192.0.2.7", 6, 413, "5", "request too large: it costs 6, and at most 5 can be granted\n"},
		{"a quota that has ended", "192.0.2.8", 5, 429, "0", "too many requests: the quota has ended\n"},
		{"skipped", "192.0.2.9", 5, 200, "", "ok"},
		{"skipped again", "192.0.2.9", 5, 200, "", "ok"},
	} {
		cost = step.cost
		got := ask(handler, from(step.address))
		require.Equal(t, step.status, got.Code, step.name)
		require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), step.name)
		require.Equal(t, step.body, got.Body.String(), step.name)
		require.Equal(t, strings.Contains(step.body, "try again"), got.Header().Get("Retry-After") != "", step.name)
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
	result, err := l.Charge(t.Context(), `v2\:re\\ply:192.0.2.1`, slow(5), 7)
	require.NoError(t, err)
	require.Equal(t, 12*24*time.Hour, result.ResetAfter)
	cost = 0
	require.Equal(t, 200, ask(handler, from("192.0.2.1")).Code, "no cost, of an overfull funnel")
}

// Errors of Redis are answered 503, and errors of the application 500, because a retry would not help. A client that
// has gone gets neither. After the deadline of a request, its client still waits.
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
			if test.ctx.Err() == nil {
				require.Equal(t, "ok", got.Body.String())
			} else {
				require.Equal(t, test.status, got.Code, "nobody waits for the handler, even in Shadow")
			}
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
	type options = []httplimit.Option
	l := limiter.NewLocal()
	shadow, slots := limiter.Shadow(l, nil), httplimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Second})
	also := func(name string, limit limiter.Limit, key httplimit.KeyFunc) options {
		return options{httplimit.WithAlso("first", slow(1), everybody), httplimit.WithAlso(name, limit, key)}
	}
	const wrongSlots = "WithSlots needs a Max of at least 1 and a TTL of at least 1ms, not "
	for want, make := range map[string]func(){
		"New needs a Limiter, not nil":  func() { httplimit.New(nil, slow(1)) },
		"New needs a Limiter, not nil ": func() { httplimit.New((*limiter.Limiter)(nil), slow(1)) },
		"New needs a valid limit, not 0 per day, capacity 0: " + gcra.ErrCount.Error(): func() {
			httplimit.New(l, limiter.Per(0, 24*time.Hour))
		},
		"WithKey needs a KeyFunc, not nil":                                       func() { httplimit.New(l, slow(1), httplimit.WithKey(nil)) },
		"OnLimited needs an answer, not nil":                                     func() { httplimit.New(l, slow(1), httplimit.OnLimited(nil)) },
		"OnError needs an answer, not nil":                                       func() { httplimit.New(l, slow(1), httplimit.OnError(nil)) },
		"a policy's name must not be empty":                                      func() { httplimit.WithName("") },
		"a policy's name must be printable ASCII, as headers are, not \"\\x7f\"": func() { httplimit.WithName("\x7f") },
		"a policy's name must be printable ASCII, as headers are, not \"\\x1f\"": func() { httplimit.WithName("\x1f") },
		"WithSlots needs a Limiter with TryAcquire":                              func() { httplimit.New(shadow, slow(1), slots) },
		wrongSlots + "{Max:0 TTL:1s}": func() {
			httplimit.New(l, slow(1), httplimit.WithSlots(limiter.Slots{TTL: time.Second}))
		},
		wrongSlots + "{Max:1 TTL:0s}": func() { httplimit.New(l, slow(1), httplimit.WithSlots(limiter.Slots{Max: 1})) },
		"WithAlso needs a Limiter with AllowAll and PeekAll": func() {
			httplimit.New(shadow, slow(1), also("all", slow(1), everybody)...)
		},
		`WithAlso needs another name than "default", which is taken`: func() {
			httplimit.New(l, slow(1), also("default", slow(1), everybody)...)
		},
		`WithAlso needs another name than "first", which is taken`: func() {
			httplimit.New(l, slow(1), also("first", slow(1), everybody)...)
		},
		"WithAlso needs a KeyFunc, not nil":  func() { also("all", slow(1), nil) },
		"a policy's name must not be empty ": func() { also("", slow(1), everybody) },
		"WithAlso needs a valid limit, not 1 per 0s, capacity 1: " + limiter.Per(1, 0).Validate().Error(): func() {
			httplimit.New(l, slow(1), also("all", limiter.Per(1, 0), everybody)...)
		},
	} {
		require.PanicsWithValue(t, "httplimit: "+strings.TrimSpace(want), make)
	}
	require.NotPanics(t, func() { httplimit.WithName(" ~") })
}
