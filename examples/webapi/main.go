// Webapi is a web API with the limits that most web APIs need: plans of customers, a login, reports
// whose cost is known only when they are done, a page that tells why a customer is limited, and
// metrics.
//
//	./build.sh run                  # a server with the module, in another terminal
//	go run ./examples/webapi        # -redis ADDRESS for another server
//	curl -i -H 'X-Api-Key: key-of-acme' localhost:8080/price
//	curl -i -H 'X-Api-Key: key-of-acme' 'localhost:8080/report?days=30'
//	curl -i -d account=acme -d password=wrong localhost:8080/login
//
// Then open http://localhost:8082, which says what is used of each limit and which limit refuses,
// and resets limits. Metrics for Prometheus are at http://localhost:8082/metrics. Stop Redis:
// prices go on, reports do not, logins are limited by this process, and the page says so. Ctrl-C
// ends the program, and leaves no slot behind.
//
// Behind a proxy, name its addresses (-trust 10.0.0.0/24), or all its clients share one address.
package main

import (
	"context"
	"flag"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // a container may lack the zones of the customers

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	public := flag.String("listen", "localhost:8080", "`address` for customers; port 0 picks one")
	internal := flag.String("internal", "localhost:8082", "`address` for the admin page and metrics")
	patience := flag.Duration("patience", 10*time.Second, "how long requests may go on after Ctrl-C")
	perRow := flag.Duration("row", time.Millisecond, "how long the archive takes to read a row of a report")
	s := &service{customers: customers, metrics: newMetrics()}
	const trust = "`prefix` of the proxies in front, as 10.0.0.0/24; may be given several times"
	flag.Func("trust", trust, func(text string) error {
		prefix, err := netip.ParsePrefix(text)
		s.clients.Trusted = append(s.clients.Trusted, prefix)
		return err
	})
	flag.Parse()

	rdb := redis.NewClient(&redis.Options{
		Addr:                  *address,
		ContextTimeoutEnabled: true, // these three as package limiter says
		MaxRetries:            -1,
		DialerRetries:         1,
	})
	s.limiters = newLimiters(rdb, s.metrics.count)
	s.archive = archive{perRow: *perRow, rowsOf: func(int) int { return rand.IntN(200) }}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := serve(ctx, *patience, site{"public", *public, s.public()}, site{"internal", *internal, s.internal()})
	s.limiters.drain() // no request runs any more, but slots may still be on their way back
	rdb.Close()
	if err != nil {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

// limiters differ in what happens to requests while Redis does not answer. They share a client, and
// their keys.
type limiters struct{ login, prices, reports *limiter.Limiter }

func newLimiters(rdb *redis.Client, hook limiter.Hook) limiters {
	with := func(policy limiter.FailurePolicy) *limiter.Limiter {
		return limiter.New(rdb,
			limiter.WithPrefix("example:webapi:"),
			limiter.WithTimeout(time.Second), // the longest that a request waits for a Redis that hangs
			limiter.WithHook(hook),
			limiter.OnFailure(policy))
	}
	return limiters{
		// If an attacker could overload Redis and then guess without a limit, the limit would be of
		// no use. If nobody could log in, the attacker would have won, too. So each process goes on
		// limiting.
		login: with(limiter.FailLocal),

		// A price costs next to nothing to tell, and our customers' shops stand still without it.
		prices: with(limiter.FailOpen),

		// Unlimited reports would overload the archive, so none runs. FailClosed would also refuse
		// them, but with 429, as if the customer had asked too often. The error is answered 503.
		reports: with(limiter.FailWithError),
	}
}

// drain waits until Redis has answered what is still under way, such as slots that are given back.
func (l limiters) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, each := range []*limiter.Limiter{l.login, l.prices, l.reports} {
		left, err := each.Drain(ctx)
		if left > 0 {
			slog.Warn("some slots may be held until their TTL is over", "uncertain", left, "error", err)
		}
	}
}
