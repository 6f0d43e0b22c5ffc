// What the tests share.

package httplimit_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// slow is a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.Per(1, 24*time.Hour).Burst(capacity) }

// ok is the handler behind the middleware.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

// unreachableHandler fails the test when a request gets to it.
func unreachableHandler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was reached") })
}

// ask sends a request through a handler.
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
