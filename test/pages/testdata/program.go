// The program runs one of the snippets in Go, each of which stands for its comment. Its arguments
// are the name, the address and a letter for each round. The clients have time for servers that
// stall: a second attempt would be counted.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"funnel/limiter"
)

var ctx = context.Background()

// snippet: go-redis-refund

func main() {
	start, patience := time.Now(), time.Minute
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[2], DialTimeout: patience, ReadTimeout: patience})
	l := limiter.New(rdb)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{os.Args[2]}, Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience,
	})
	if err != nil {
		panic(err)
	}
	run := map[string]func() error{
		"limiter": func() error {
			// snippet: limiter
			return nil
		},
		"go-redis": func() error {
			// snippet: go-redis
			return nil
		},
		"rueidis": func() error {
			// snippet: rueidis
			return nil
		},
		"settle": func() error {
			// snippet: settle
			return nil
		},
		"go-redis refund": func() error {
			reply, err := rdb.Do(ctx, "CL.RESERVE", "user:42", 15, 30, 60, 1).Slice()
			if err != nil {
				return err
			}
			return refund(ctx, rdb, reply[2].([]any)[0].([]any))
		},
		"rueidis refund": func() error {
			ask := client.B().Arbitrary("CL.RESERVE").Keys("user:42").Args("15", "30", "60", "1").Build()
			reply, err := client.Do(ctx, ask).ToArray()
			if err != nil {
				return err
			}
			rows, _ := reply[2].ToArray()
			row, _ := rows[0].ToArray()
			tat, _ := row[5].ToString()
			refund := client.B().Arbitrary("CL.REFUND").Keys("user:42").Args("15", "30", "60", "1", tat).Build()
			return client.Do(ctx, refund).Error()
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
