package httplimit_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// timeout is that of the Limiter: long for a test machine that stalls, and short beside
// the read timeout of the client, which is servertest.Patience.
const timeout = time.Second

// withinTheTimeout is the timeout and some time for a busy machine.
const withinTheTimeout = 10 * timeout

// An outage ends Redis, and starts it again.
type outage struct {
	name  string
	begin func(*testing.T, *servertest.Server)
	end   func(*testing.T, *servertest.Server)
}

var outages = []outage{
	{"killed",
		func(_ *testing.T, server *servertest.Server) { server.Kill() },
		func(t *testing.T, server *servertest.Server) { server.Restart(t) }},
	{"stopped",
		func(t *testing.T, server *servertest.Server) {
			require.NoError(t, server.Signal(syscall.SIGSTOP))
			// The server could not be ended otherwise when the test fails.
			t.Cleanup(func() { server.Signal(syscall.SIGCONT) })
		},
		func(t *testing.T, server *servertest.Server) { require.NoError(t, server.Signal(syscall.SIGCONT)) }},
}

// While Redis is down, each request is answered by the policy, in time; when it is back,
// funnels in Redis decide again.
func TestOutages(t *testing.T) {
	captureLog(t)
	const capacity = 3
	// What the first requests without Redis are answered.
	answers := map[limiter.Failure][]int{
		limiter.FailWithError: {503, 503},
		limiter.FailOpen:      {200, 200},
		limiter.FailClosed:    {429, 429},
		limiter.FailLocal:     {200, 200, 200, 429, 429},
	}
	for _, withModule := range []bool{true, false} {
		for _, outage := range outages {
			for policy, want := range answers {
				t.Run(fmt.Sprintf("module %v/%s/%v", withModule, outage.name, policy), func(t *testing.T) {
					t.Parallel()
					options := servertest.Options{}
					if withModule {
						options.Module = servertest.Module(t)
					}
					redisServer := servertest.Start(t, options)
					l := limiter.New(redisServer.Client(t), limiter.OnFailure(policy), limiter.WithTimeout(timeout),
						limiter.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
					server := serve(t, httplimit.New(l, slow(capacity), httplimit.WithKey(httplimit.ByHeader("Account", nil)))(ok))
					requireCapacityThenLimited(t, server, "first", capacity)

					outage.begin(t, redisServer)
					for i, status := range want {
						start := time.Now()
						got := get(t, server, setHeader("Account", "first"))
						require.Lessf(t, time.Since(start), withinTheTimeout, "request %d", i)
						require.Equalf(t, status, got.StatusCode, "request %d", i)
						requireAnswerWithoutRedis(t, got)
					}

					outage.end(t, redisServer)
					eventually(t, "Redis decides", func() bool {
						before := l.Stats()
						get(t, server, setHeader("Account", "first"))
						after := l.Stats()
						return after.Module+after.Script > before.Module+before.Script
					})
					// Into the first one, calls that were given up may still pour.
					requireCapacityThenLimited(t, server, "second", capacity)
				})
			}
		}
	}
}

func requireCapacityThenLimited(t *testing.T, server *httptest.Server, account string, capacity int) {
	t.Helper()
	for range capacity {
		require.Equal(t, http.StatusOK, get(t, server, setHeader("Account", account)).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, get(t, server, setHeader("Account", account)).StatusCode)
}

// requireAnswerWithoutRedis requires that answers without Redis are as well formed as
// others.
func requireAnswerWithoutRedis(t *testing.T, got response) {
	t.Helper()
	if got.StatusCode == http.StatusServiceUnavailable {
		require.Equal(t, "1", got.Header.Get("Retry-After"))
		require.Empty(t, got.Header.Values("RateLimit"))
		return
	}
	requireWellFormed(t, got, "default")
}
