// Playground serves a page that shows the limits of a real server: how funnels fill with each call
// and leak, how many slots are held, and what the server replies.
//
//	./build.sh run                  # a server with the module, in another terminal
//	go run ./examples/playground    # -redis ADDRESS, or a URL, for another server
//
// Then open the address that it prints. The first go run compiles the libraries for a minute or two
// without a word. Keys begin with playground: and four characters that change with each run.
// Playgrounds with the same -prefix share keys.
//
// On a server without the module, the script decides: the page says which of the two does.
package main

import (
	"crypto/rand"
	"flag"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	options := &redis.Options{Addr: "localhost:6379"}
	const usage = "`address` of Redis or Valkey, or redis://USER:PASSWORD@HOST:PORT (default localhost:6379)"
	flag.Func("redis", usage, func(text string) (err error) {
		if strings.Contains(text, "://") {
			options, err = redis.ParseURL(text)
			return err
		}
		options.Addr = text
		return nil
	})
	listen := flag.String("listen", "localhost:8081", "`address` to serve on; port 0 picks one")
	prefix := flag.String("prefix", "playground:"+strings.ToLower(rand.Text()[:4])+":", "what the keys begin with")
	flag.Parse()

	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	// Fail soon, and send no call twice.
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = time.Second
	options.ReadTimeout = time.Second
	rdb := redis.NewClient(options)
	defer rdb.Close()

	err := serve(*listen, 5*time.Second, handler(store{rdb, *prefix}), logger)
	if err != nil {
		logger.Error("the server has failed", "error", err)
		os.Exit(1)
	}
}
