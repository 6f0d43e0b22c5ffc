package httplimit_test

import (
	"encoding/json"
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

	limit := httplimit.New(l, limiter.PerMinute(30).Burst(2),
		httplimit.WithName("reply"),
		httplimit.WithKey(httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/24"))))
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
	// 429 too many requests: try again in 2 seconds
	// "reply";q=2;w=4   "reply";r=0;t=2
}

// A service allows one request a day, and its client believes that it allows five a second.
func ExampleTransport() {
	service := httptest.NewServer(httplimit.New(limiter.NewLocal(), limiter.Every(24*time.Hour))(http.NotFoundHandler()))
	defer service.Close()
	client := http.Client{Transport: &httplimit.Transport{
		Limiter:    limiter.NewLocal(), // for this process; limiter.New, for a fleet
		Limit:      limiter.PerSecond(5),
		MaxBackOff: 100 * time.Millisecond,
	}}
	begin := time.Now()
	for range 3 {
		response, _ := client.Get(service.URL)
		fmt.Print(response.StatusCode, " ")
	}
	fmt.Println("waited:", time.Since(begin) >= 100*time.Millisecond)
	// Output: 404 429 429 waited: true
}

// An answer for programs, with the status and the headers of the default one.
func ExampleOnLimited() {
	_ = httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(httplimit.Status(result))
		json.NewEncoder(w).Encode(map[string]any{"title": "Too many requests", "limit": result.Limit.String()})
	})
}
