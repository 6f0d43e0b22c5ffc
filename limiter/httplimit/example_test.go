package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

func ExampleNew() {
	// No server listens there, and the example needs none: funnels in this
	// process decide.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	l := limiter.New(rdb, limiter.OnFailure(limiter.FailLocal))

	limit := httplimit.New(l, limiter.PerMinute(30).WithCapacity(2),
		httplimit.WithName("reply"),
		httplimit.WithKey(httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/24"))),
		httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
			http.Error(w, fmt.Sprint("full for ", result.RetryAfter.Round(time.Second)), http.StatusTooManyRequests)
		}))
	mux := http.NewServeMux()
	mux.Handle("/reply", limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "posted")
	})))

	for range 3 {
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/reply", nil))
		fmt.Print(response.Code, " ", response.Body)
		fmt.Println(response.Header().Get("RateLimit-Policy"), " ", response.Header().Get("RateLimit"))
	}
	// Output:
	// 200 posted
	// "reply";q=2;w=4   "reply";r=1;t=2
	// 200 posted
	// "reply";q=2;w=4   "reply";r=0;t=4
	// 429 full for 2s
	// "reply";q=2;w=4   "reply";r=0;t=2
}
