// Of one key, no more requests run at once than there are slots, and each request gives its slot
// back, however it ends. If only a slot is missing, the headers say so.

package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
			keys = append(keys, event.Command+" "+event.Key)
		}))
		begun, end := make(chan *http.Request, 1), make(chan struct{})
		cost := 1
		handler := httplimit.New(l, "{s", slow(5),
			httplimit.WithCost(func(*http.Request) int { return cost }),
			httplimit.WithSlots(limiter.Slots{Max: 1, TTL: 3 * time.Second}),
		)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			result, ok := httplimit.ResultFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, slow(5), result.Limit)
			begun <- r
			<-end
			if r.URL.Path == "/panics" {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, "ok")
		}))
		begin := func(path string) (r *http.Request, answered chan *httptest.ResponseRecorder) {
			answered = make(chan *httptest.ResponseRecorder, 1)
			go func() {
				defer close(answered)
				defer func() { _ = recover() }()
				r := from("192.0.2.1")
				r.URL.Path = path
				answered <- ask(handler, r)
			}()
			return <-begun, answered
		}

		_, first := begin("/")
		require.Equal(t, []string{`reserve {\<s:192.0.2.1}:rate`, `reserve {\<s:192.0.2.1}:slots`}, keys)
		for _, c := range []struct {
			cost, status     int
			body, retryAfter string
			x                []string // X-RateLimit-Limit and -Remaining of the policy that refuses
		}{
			{1, 429, "too many requests at once: try again in a moment (policy \"{s\")\n", "1", []string{"1", "0"}},
			{0, 429, "too many requests at once: try again in a moment (policy \"{s\")\n", "1", []string{"1", "0"}},
			{5, 429, "too many requests: try again in 86400 seconds (policy \"{s\")\n", "86400", []string{"5", "4"}},
			{6, 413, "request too large: it costs 6, and at most 5 can be granted (policy \"{s\")\n", "", []string{"5", "4"}},
		} {
			cost = c.cost
			limited := ask(handler, from("192.0.2.1"))
			require.Equal(t, []any{c.status, c.body}, []any{limited.Code, limited.Body.String()}, "cost %d", c.cost)
			require.Equal(t, c.retryAfter, limited.Header().Get("Retry-After"), "cost %d", c.cost)
			require.Equal(t, c.x, []string{limited.Header().Get("X-RateLimit-Limit"),
				limited.Header().Get("X-RateLimit-Remaining")}, "cost %d", c.cost)
			require.Equal(t, `"{s:slots";q=1;qu="concurrent-requests"`, limited.Header().Values("RateLimit-Policy")[1],
				"cost %d", c.cost)
			require.Equal(t, `"{s:slots";r=0;t=1`, limited.Header().Values("RateLimit")[1], "cost %d", c.cost)
		}
		cost = 1
		end <- struct{}{}
		require.Equal(t, "ok", (<-first).Body.String())
		synctest.Wait() // the slot is given back in the background

		_, panics := begin("/panics")
		end <- struct{}{}
		require.Nil(t, <-panics)
		synctest.Wait()
		lost, last := begin("/")
		require.NoError(t, l.Reset(t.Context(), httplimit.SlotsKey("{s", "192.0.2.1")))
		<-lost.Context().Done()
		require.Equal(t, limiter.ErrSlotLost, context.Cause(lost.Context()))
		end <- struct{}{}
		require.Equal(t, "2", (<-last).Header().Get("X-RateLimit-Remaining"))
		synctest.Wait()
		require.Equal(t, `refund {\<s:192.0.2.1}:slots`, keys[len(keys)-1])
	})
}

// A TimeoutHandler outside of WithSlots leaves a slot with its handler until that returns, though
// the client has its answer. Inside, the slot would be free with the answer, and more handlers
// would run than there are slots.
func TestTimeoutHandler(t *testing.T) {
	for name, c := range map[string]struct {
		chain func(limit func(http.Handler) http.Handler, slow http.Handler) http.Handler
		most  int
	}{
		"outside": {most: 2, chain: func(limit func(http.Handler) http.Handler, slow http.Handler) http.Handler {
			return http.TimeoutHandler(limit(slow), time.Second, "too slow")
		}},
		"inside": {most: 20, chain: func(limit func(http.Handler) http.Handler, slow http.Handler) http.Handler {
			return limit(http.TimeoutHandler(slow, time.Second, "too slow"))
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Minute)
				running.Add(-1)
			})
			slots := limiter.Slots{Max: 2, TTL: time.Hour}
			limit := httplimit.New(limiter.NewLocal(), "p", limiter.PerSecond(100), httplimit.WithSlots(slots))
			handler := c.chain(limit, slow)
			for range 20 {
				ask(handler, from("192.0.2.1"))
				time.Sleep(time.Millisecond) // the slot comes back
			}
			require.Equal(t, int64(c.most), most.Load(), name)
			time.Sleep(time.Hour)
		})
	}
}
