// Webapi is a web API with limits: 5 requests at once and 2 a second from each address,
// and for /search, which is expensive, a token more for each page.
//
//	./build.sh run                  # a server with the module, in another terminal
//	go run ./examples/webapi        # -redis ADDRESS for another server
//	curl -i localhost:8080/hello
//	curl -i 'localhost:8080/search?pages=3'
//
// Stop Redis meanwhile: the limits hold, by funnels in this process, and the log says
// so, until Redis is back. Ctrl-C lets running requests end.
//
// Behind a proxy, name its addresses (-trust 10.0.0.0/24), or all its clients share one key.
// For metrics, there is examples/monitoring/prometheus.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/examples/internal/web"
	"funnel/limiter"
	"funnel/limiter/httplimit"
	"funnel/limiter/lease"
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	listen := flag.String("listen", "localhost:8080", "`address` to serve on; port 0 picks one")
	timeout := flag.Duration("timeout", 10*time.Second, "how long a client may take to send a request, or the next one")
	var proxies netip.Prefix
	flag.TextVar(&proxies, "trust", netip.Prefix{}, "`prefix` of the proxies in front, as 10.0.0.0/24")
	flag.Parse()

	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rdb := redis.NewClient(&redis.Options{
		Addr:                  *address,
		ContextTimeoutEnabled: true, // these three as package limiter says
		MaxRetries:            -1,
		DialerRetries:         1,
	})
	defer rdb.Close()

	if err := web.Serve(*listen, *timeout, handler(rdb, logger, proxies), logger); err != nil {
		logger.Error("the server has failed", "error", err)
		os.Exit(1)
	}
}

func handler(rdb *redis.Client, logger *slog.Logger, proxies netip.Prefix) http.Handler {
	l := limiter.New(rdb,
		limiter.WithPrefix("webapi:"),
		limiter.WithTimeout(100*time.Millisecond), // for each decision
		limiter.OnFailure(limiter.FailLocal),
		limiter.WithLogger(logger),
	)
	key := httplimit.ByIP()
	if proxies.IsValid() {
		key = httplimit.ByIP(proxies)
	}
	prefilter := lease.New(l, 0) // calls that Redis would certainly limit do not reach it
	limit := httplimit.New(prefilter, limiter.PerSecond(2).WithCapacity(5),
		httplimit.WithName("api"),
		httplimit.WithKey(key),
		httplimit.WithCost(cost),
	)

	mux := http.NewServeMux()
	mux.Handle("GET /hello", limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})))
	mux.Handle("GET /search", limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "pages: %d\n", pages(r))
	})))
	return mux
}

// cost is a token, and one for each page of a search.
func cost(r *http.Request) int { return 1 + pages(r) }

// pages is how many pages a request asks for. An invalid number counts as more than any
// limit.
func pages(r *http.Request) int {
	text := r.URL.Query().Get("pages")
	if text == "" {
		return 0
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 1 << 16
	}
	return int(number)
}
