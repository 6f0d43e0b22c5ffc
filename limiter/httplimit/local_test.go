package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// TestRepliesOfAnHour is the example of docs/go.md, which shows this function as it is here.
func TestRepliesOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := httplimit.New(limiter.NewLocal(), "reply", limiter.PerHour(2))
		handler := limit(reply)

		request := httptest.NewRequest(http.MethodGet, "/reply", nil)
		for _, status := range []int{200, 200, 429} {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != status {
				t.Errorf("%d instead of %d: %s", recorder.Code, status, recorder.Body)
			}
		}

		time.Sleep(30 * time.Minute) // takes no time: the clock is the bubble's
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code != 200 {
			t.Errorf("%d after the time that the answer named: %s", recorder.Code, recorder.Body)
		}
	})
}
