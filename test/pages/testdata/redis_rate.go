// The program makes calls as docs/moving-from-redis_rate.md shows them, before and after the move,
// until one fails. It prints how many were allowed, and the error.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	ctx, rdb := context.Background(), redis.NewClient(&redis.Options{Addr: os.Args[1]})
	before := func() error {
		// snippet: before
		return nil
	}
	after := func() error {
		// snippet: after
		return nil
	}
	for _, call := range []func() error{before, after} {
		allowed := 0
		err := call()
		for ; err == nil; err = call() {
			allowed++
		}
		fmt.Println(allowed, err)
	}
}
