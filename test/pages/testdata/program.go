// The program runs one of the snippets in Go, each of which stands for its comment. Its arguments
// are the name, the address and a letter for each round. The clients have time for servers that
// stall: a second attempt would be counted.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/httplimit"
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
	}[os.Args[1]]
	for round := range len(os.Args[3]) {
		if err := run(); err != nil {
			fmt.Println("round", round+1, "failed after", time.Since(start), err)
			os.Exit(1)
		}
		fmt.Println("went on")
	}
}
