// Of one key, no more requests run at once than there are slots, and each request gives its slot back, however it ends.
// If only a slot is missing, the headers say so.

package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
		handler := httplimit.New(l, slow(5), httplimit.WithName("{s"),
			httplimit.WithCost(func(*http.Request) int { return cost }),
			httplimit.WithSlots(limiter.Slots{Max: 1, TTL: 3 * time.Second}),
		)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			result, ok := httplimit.ResultFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, slow(5), result.Limit)
			require.IsType(t, new(httptest.ResponseRecorder), w, "handlers can flush and hijack")
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
		require.Equal(t, []string{`reserve {\{s:192.0.2.1}:slots`, `reserve {\{s:192.0.2.1}`}, keys)
		for _, c := range []struct {
			cost, status     int
			body, retryAfter string
		}{
			{1, 429, "too many requests at once: try again in a moment\n", "1"},
			{0, 429, "too many requests at once: try again in a moment\n", "1"},
			{5, 429, "too many requests: try again in 86400 seconds\n", "86400"},
			{6, 413, "request too large: it costs 6, and at most 5 can be granted\n", ""},
		} {
			cost = c.cost
			limited := ask(handler, from("192.0.2.1"))
			require.Equal(t, []any{c.status, c.body}, []any{limited.Code, limited.Body.String()}, "cost %d", c.cost)
			require.Equal(t, c.retryAfter, limited.Header().Get("Retry-After"), "cost %d", c.cost)
			require.Equal(t, []string{"1", "0"}, []string{limited.Header().Get("X-RateLimit-Limit"),
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
		require.NoError(t, l.Reset(t.Context(), `{\{s:192.0.2.1}:slots`))
		<-lost.Context().Done()
		require.Equal(t, limiter.ErrSlotLost, context.Cause(lost.Context()))
		end <- struct{}{}
		require.Equal(t, "2", (<-last).Header().Get("X-RateLimit-Remaining"))
		synctest.Wait()
		require.Equal(t, `refund {\{s:192.0.2.1}:slots`, keys[len(keys)-1])
	})
}
