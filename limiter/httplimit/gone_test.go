package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// The answer to a client that has left does not wait until its tokens are given back. Drain does.
func TestTheAnswerWaitsForNoRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var giveUp context.CancelFunc
		l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Command == "refund" {
				time.Sleep(time.Second)
				return
			}
			giveUp() // the client leaves while the decision is on its way
		}))
		handler := httplimit.New(l, "policy", slow(5))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler runs, although nobody waits for it")
		}))
		ctx, cancel := context.WithCancel(t.Context())
		giveUp = cancel
		answer, began := httptest.NewRecorder(), time.Now()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		require.Equal(t, 499, answer.Code)
		require.Equal(t, began, time.Now())

		left, err := l.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Equal(t, began.Add(time.Second), time.Now())
		giveUp = func() {}
		seen, err := l.Peek(t.Context(), httplimit.LimitKey("policy", "192.0.2.1", slow(5)), slow(5))
		require.NoError(t, err)
		require.Equal(t, 5, seen.Remaining, "the token is back")
	})
}
