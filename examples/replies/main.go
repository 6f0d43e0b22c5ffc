// Replies is the usual example of a funnel: a user may reply 15 times in a row, and then
// 30 times a minute. Of 20 replies at once, 15 are allowed and 5 limited, for 2 seconds.
//
//	./build.sh run              # a server with the module, in another terminal
//	go run ./examples/replies   # -redis ADDRESS for another server
//
// A server without the module works, too; the results are the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *address})
	defer rdb.Close()
	if err := reply(context.Background(), limiter.New(rdb)); err != nil {
		log.Fatal(err)
	}
}

func reply(ctx context.Context, l *limiter.Limiter) error {
	const key = "user:42"
	limit := limiter.PerMinute(30).WithCapacity(15)

	// Each run begins with an empty funnel.
	if err := l.Reset(ctx, key); err != nil {
		return err
	}
	for i := range 20 {
		result, err := l.Allow(ctx, key, limit)
		if err != nil {
			return err
		}
		if result.Limited() {
			fmt.Printf("reply %d: limited, try again in %v\n", i+1, result.RetryAfter.Round(time.Millisecond))
		} else {
			fmt.Printf("reply %d: allowed, %d more at once, all %d again in %v\n",
				i+1, result.Remaining, limit.Capacity, result.ResetAfter.Round(time.Millisecond))
		}
	}
	return nil
}
