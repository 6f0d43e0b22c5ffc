package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// slow is a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.PerDay(1).Burst(capacity) }

// epoch is an instant to set the clock to: ahead of the real clock, by which the
// server expires keys, so that a funnel filled then does not vanish meanwhile.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// withAndWithoutModule runs a test through CL.THROTTLE and through the script.
func withAndWithoutModule(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("module", func(t *testing.T) {
		test(t, servertest.Start(t, servertest.Options{Module: servertest.Module(t)}).Client(t))
	})
	t.Run("script", func(t *testing.T) {
		test(t, servertest.Start(t, servertest.Options{}).Client(t))
	})
}

// atOneInstant starts a server whose module sees the clock standing still.
func atOneInstant(t *testing.T) *redis.Client {
	t.Helper()
	rdb := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	setClock(t, rdb, epoch)
	return rdb
}

func setClock(t *testing.T, rdb *redis.Client, now time.Time) {
	t.Helper()
	require.NoError(t, rdb.Do(context.Background(), "funnel.debug", "clock", now.UnixNano()).Err())
}

// ok is the handler behind the middleware.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

// serve serves over real connections until the test ends.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// A response is a whole one, with its body.
type response struct {
	*http.Response
	body string
}

// get sends a request to a server of [serve], after the changes.
func get(t *testing.T, server *httptest.Server, change ...func(*http.Request)) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	for _, change := range change {
		change(request)
	}
	return send(t, server.Client(), request)
}

func send(t *testing.T, client *http.Client, request *http.Request) response {
	t.Helper()
	got, err := client.Do(request)
	require.NoError(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return response{got, string(body)}
}

// setHeader is a change for get.
func setHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

// ask sends a request through a handler without a connection.
func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

// from is a request of a peer.
func from(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = net.JoinHostPort(address, "4711")
	return r
}

// unreachable is a client of Redis where no server listens.
func unreachable(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// still is a clock that stands still.
type still struct{}

func (still) Now() time.Time { return epoch }

func (still) Sleep(context.Context, time.Duration) error { return nil }

// inProcess is a Limiter that needs no server.
func inProcess(t *testing.T) *limiter.Limiter {
	t.Helper()
	return limiter.New(unreachable(t), limiter.OnFailure(limiter.FailLocal), limiter.WithClock(still{}))
}

// eventually waits for a condition of a real server.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, servertest.Patience, 5*time.Millisecond, what)
}
