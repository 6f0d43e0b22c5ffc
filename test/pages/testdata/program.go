// The program runs one of the snippets in Go, each of which stands for its comment. Its arguments
// are the name, the address and a letter for each round. The clients have time for servers that
// stall: a second attempt would be counted.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/httplimit"
	"funnel/limiter/lease"
)

var ctx = context.Background()

func main() {
	start, patience := time.Now(), time.Minute
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[2], DialTimeout: patience, ReadTimeout: patience})
	l := limiter.New(rdb)
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).URL
	work := func(ctx context.Context) error { return ctx.Err() }
	run := map[string]func() error{
		"limiter": func() error {
			// snippet: limiter
			return nil
		},
		"settle": func() error {
			// snippet: settle
			return nil
		},
		"shadow": func() error {
			// snippet: shadow
		},
		"plan": func() error {
			// snippet: plan
		},
		"pool": func() error {
			// snippet: pool
		},
		"who": func() error {
			// snippet: who
		},
		"outgoing": func() error {
			// snippet: outgoing
		},
		"http": func() error {
			// snippet: http
		},
		"leases": func() error {
			// snippet: leases
			if result.Limited() {
				return errors.New("limited")
			}
			return err
		},
		"proxy": func() error {
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
			// snippet: cors
			// snippet: proxy
			return throughProxy(handler)
		},
		"levels": func() error {
			// snippet: levels
			return nil
		},
		"warn": func() error {
			for range 2 { // the second call sends no warning
				if err := func() error {
					// snippet: warn
					return nil
				}(); err != nil {
					return err
				}
			}
			return nil
		},
		"names": func() error {
			// snippet: names
			return nil
		},
		"regions": func() error {
			region := "eu"
			// snippet: regions
			return nil
		},
		"yield": func() error {
			// snippet: yield
			return getBy(api, users, batch)
		},
	}[os.Args[1]]
	for round := range len(os.Args[3]) {
		if err := run(); err != nil {
			fmt.Println("round", round+1, "failed after", time.Since(start), err)
			os.Exit(1)
		}
		fmt.Println("went on")
	}
}

// serve stands for http.ListenAndServe: it sends 16 requests, and prints how the last two are
// answered.
func serve(_ string, handler http.Handler) error {
	for i := range 16 {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/reply", nil))
		if i >= 14 {
			fmt.Print(recorder.Code, " ", recorder.Body)
		}
	}
	return nil
}

// throughProxy sends requests as a proxy does, and returns an error unless the client is limited,
// preflights and health checks are not, and a browser shows scripts all headers.
func throughProxy(handler http.Handler) error {
	limited := 0
	for range 100 {
		for _, line := range []string{"GET /", "OPTIONS /", "GET /healthz"} {
			method, path, _ := strings.Cut(line, " ")
			r := httptest.NewRequest(method, path, nil)
			r.RemoteAddr = "10.0.0.7:4711"
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			if method == http.MethodOptions {
				r.Header.Set("Access-Control-Request-Method", http.MethodGet)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			exposed := recorder.Header().Get("Access-Control-Expose-Headers")
			for name := range recorder.Header() {
				isOurs := name == "Retry-After" || strings.Contains(name, "Ratelimit")
				if isOurs && !strings.Contains(strings.ToLower(exposed), strings.ToLower(name)) {
					return fmt.Errorf("scripts do not see %s", name)
				}
			}
			if recorder.Code == http.StatusOK || recorder.Code == http.StatusNoContent {
				continue
			}
			limited++
			if line != "GET /" {
				return fmt.Errorf("%s: %d %s", line, recorder.Code, recorder.Body)
			}
		}
	}
	if limited == 0 {
		return errors.New("nothing is limited")
	}
	return nil
}

// getBy sends a request by each client.
func getBy(url string, clients ...*http.Client) error {
	for _, client := range clients {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		response.Body.Close()
	}
	return nil
}
