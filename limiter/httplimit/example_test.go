package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// show sends a request to a handler, and prints the answer.
func show(handler http.Handler, r *http.Request) {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	fmt.Print(recorder.Code, " ", recorder.Body)
}

var reply = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// Of each address, two requests may come at once, and then one every 30 minutes.
func ExampleNew() {
	l := limiter.NewLocal() // in a program with several processes: limiter.New(rdb)

	limit := httplimit.New(l, "reply", limiter.PerHour(2))
	handler := limit(reply)

	request := httptest.NewRequest(http.MethodPost, "/reply", nil)
	for range 3 {
		show(handler, request)
	}
	// Output:
	// 200 hello
	// 200 hello
	// 429 too many requests: try again in 1800 seconds (policy "reply")
}

// The limit of a request is that of its customer's plan. Customers may change from one plan to
// another at any time, even if one is a rate and the other one a quota: each kind has a key of its
// own.
func ExampleNew_plans() {
	plans := map[string]limiter.Limit{
		"free":  limiter.PerHour(2),
		"trial": limiter.Window(1, 24*time.Hour),
	}
	planOf := func(r *http.Request) limiter.Limit { return plans[r.Header.Get("Plan")] } // as authentication has found

	limit := httplimit.New(limiter.NewLocal(), "plan", planOf,
		httplimit.WithKey(httplimit.ByHeader("X-Api-Key", httplimit.ByIP())))
	handler := limit(reply)

	for _, plan := range []string{"trial", "trial", "free"} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("X-Api-Key", "secret")
		request.Header.Set("Plan", plan)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		fmt.Println(plan, recorder.Code, recorder.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// trial 200 "plan";q=1;w=86400
	// trial 429 "plan";q=1;w=86400
	// free 200 "plan";q=2;w=3600
}

// A customer has two limits, and the answer names the limit that refuses. The cost of a request is
// what it asks for.
func ExampleWithAlso() {
	customer := httplimit.ByHeader("X-Api-Key", nil)
	limit := httplimit.New(limiter.NewLocal(), "minute", limiter.PerMinute(10),
		httplimit.WithKey(customer),
		httplimit.WithAlso("month", limiter.Window(1000, 30*24*time.Hour), customer),
		httplimit.WithCost(func(r *http.Request) int { return int(r.ContentLength) }))

	handler := limit(reply)
	for range 2 {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.ContentLength = 7
		handler.ServeHTTP(recorder, request)
		fmt.Print(recorder.Code, " ", recorder.Body)
		fmt.Println("  remaining:", recorder.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 hello
	//   remaining: 3
	// 429 too many requests: try again in 24 seconds (policy "minute")
	//   remaining: 3
}

// Of each key, one request runs at once, for as long as it takes.
func ExampleWithSlots() {
	l := limiter.NewLocal()
	limit := httplimit.New(l, "report", limiter.PerMinute(60),
		httplimit.WithSlots(limiter.Slots{Max: 1, TTL: 30 * time.Second}))

	var handler http.Handler
	handler = limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		show(handler, r) // a second request, while the first one runs
		fmt.Fprintln(w, "done")
	}))
	show(handler, httptest.NewRequest(http.MethodGet, "/report", nil))
	// Output:
	// 429 too many requests at once: try again in a moment (policy "report")
	// 200 done
}

// An answer in JSON, for programs.
func ExampleOnLimited() {
	limit := httplimit.New(limiter.NewLocal(), "reply", limiter.PerHour(1),
		httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(refusal.Status())
			fmt.Fprintf(w, `{"policy": %q, "limit": %q, "retry_after": %v}`+"\n",
				refusal.Policy, refusal.Result.Limit, refusal.RetryAfter.Seconds())
		}))

	handler := limit(reply)
	for range 2 {
		show(handler, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	// Output:
	// 200 hello
	// 429 {"policy": "reply", "limit": "1 per hour, capacity 1", "retry_after": 3600}
}

// A client sends ten requests a second, whatever the number of processes, and obeys Retry-After.
// Batch jobs leave most of the capacity to interactive requests.
func ExampleTransport() {
	api := httptest.NewServer(reply)
	defer api.Close()
	l := limiter.NewLocal() // in a program with several processes: limiter.New(rdb)

	limit := limiter.PerSecond(10)
	interactive := &http.Client{Transport: &httplimit.Transport{Limiter: l, Limit: limit, MaxWait: 10 * time.Second}}
	batch := &http.Client{Transport: &httplimit.Transport{Limiter: l, Limit: limit.WithCapacity(2), Yield: true}}

	for _, client := range []*http.Client{interactive, batch} {
		response, err := client.Get(api.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Print(response.StatusCode, " ", string(body))
	}
	// Output:
	// 200 hello
	// 200 hello
}

// A handler that asks a Limiter itself, here for other costs than the middleware can take, writes
// the same headers.
func ExampleSetHeaders() {
	l := limiter.NewLocal()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		results, err := l.AllowAll(r.Context(),
			limiter.Request{Key: "{user:42}:requests", Limit: limiter.PerMinute(60), Quantity: 1},
			limiter.Request{Key: "{user:42}:bytes", Limit: limiter.PerMinute(60_000), Quantity: 1500})
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		httplimit.SetHeaders(w.Header(), results, "requests", "bytes")
		if results.Limited() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/upload", nil))
	for _, line := range recorder.Header().Values("RateLimit-Policy") {
		fmt.Println(line)
	}
	fmt.Println(recorder.Header().Get("X-RateLimit-Remaining"))
	// Output:
	// "requests";q=60;w=60
	// "bytes";q=60000;w=60
	// 59
}
