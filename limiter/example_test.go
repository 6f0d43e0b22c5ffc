// The examples of the documentation compile, and print what they say.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// A service that must answer without Redis, too: no call waits for it longer than
// 50 ms, and then funnels inside this process decide.
func ExampleOnFailure() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
	l := limiter.New(rdb,
		limiter.WithTimeout(50*time.Millisecond),
		limiter.OnFailure(limiter.FailLocal))

	result, _ := l.Allow(context.Background(), "user:42", limiter.PerMinute(30).Burst(15))
	if result.Path == limiter.PathLocal {
		fmt.Println("decided without Redis")
	}
}

// Workers of any number of processes send mails no faster than the provider takes them,
// in the order in which they ask. One that would wait for more than a minute gives up.
func ExampleLimiter_Wait() {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), limiter.WithMaxWait(time.Minute))

	for _, address := range []string{"a@example.com", "b@example.com"} {
		switch err := l.Wait(context.Background(), "mail", limiter.PerSecond(10)); {
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Println("too busy, try later")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("sending to", address)
		}
	}
}

// Several limits on one action: it takes a token of each, or none at all. The hash tag
// keeps the keys together in a cluster.
func ExampleLimiter_AllowAll() {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))

	results, err := l.AllowAll(context.Background(),
		limiter.Request{Key: "{user:42}:second", Limit: limiter.PerSecond(10), Quantity: 1},
		limiter.Request{Key: "{user:42}:hour", Limit: limiter.PerHour(1000), Quantity: 1})
	if err != nil {
		log.Fatal(err)
	}
	if results.Limited() {
		fmt.Println("try again in", results.RetryAfter(), "because of the hour:", results[1].Limited())
	}
}

// A call of a language model: the tokens of its answer are known only when it has
// answered. What was estimated too high is given back, and what was too low is charged.
func ExampleLimiter_Settle() {
	ctx, key, limit := context.Background(), "user:42", limiter.PerMinute(10_000)
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))

	const estimate, used = 500, 620
	result, err := l.AllowN(ctx, key, limit, estimate)
	if err != nil {
		log.Fatal(err)
	}
	if result.Limited() {
		fmt.Println("try again in", result.RetryAfter)
		return
	}
	if _, err := l.Settle(ctx, &result, used); err != nil {
		log.Fatal(err)
	}
}

func ExampleLimit_String() {
	fmt.Println(limiter.PerSecond(10))
	fmt.Println(limiter.PerMinute(30).Burst(15))
	fmt.Println(limiter.PerHour(1))
	fmt.Println(limiter.Per(1000, 24*time.Hour))
	fmt.Println(limiter.Per(1, 1500*time.Millisecond).Burst(20))
	// Output:
	// 10 per second, burst 10
	// 30 per minute, burst 15
	// 1 per hour, burst 1
	// 1000 per day, burst 1000
	// 1 per 1.5s, burst 20
}
