// Playground serves a page on which funnels of a real server are seen: how they fill with
// each call, how they leak, and what a call is told.
//
//	./build.sh run                  # a server with the module, in another terminal
//	go run ./examples/playground    # -redis ADDRESS for another server
//
// and open the address that it prints. Its keys begin with playground: and four characters
// that change with each run; with -prefix, several playgrounds share their funnels.
//
// A server without the module works, too: the page says what decides.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	listen := flag.String("listen", "localhost:8081", "`address` to serve on; port 0 picks one")
	prefix := flag.String("prefix", "playground:"+strings.ToLower(rand.Text()[:4])+":", "what the keys begin with")
	flag.Parse()

	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{
		Addr: *address,
		// Fail soon, and send no call twice.
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
	})
	defer rdb.Close()
	rdb.AddHook(recorder{})
	l := limiter.New(rdb, limiter.WithPrefix(*prefix), limiter.WithTimeout(time.Second))

	if err := serve(ctx, *listen, handler(l, *address), logger); err != nil {
		logger.Error("the server has failed", "error", err)
		os.Exit(1)
	}
}

// serve serves until ctx is done.
func serve(ctx context.Context, address string, handler http.Handler, logger *slog.Logger) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:     handler,
		ReadTimeout: 5 * time.Second,
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	logger.Info("serving", "address", "http://"+listener.Addr().String())
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}
