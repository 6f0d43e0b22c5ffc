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
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1})
	l := limiter.New(rdb,
		limiter.WithTimeout(50*time.Millisecond),
		limiter.OnFailure(limiter.FailLocal))

	result, _ := l.Allow(context.Background(), "user:reply", limiter.PerMinute(30).Burst(15))
	if result.Path == limiter.PathLocal {
		fmt.Println("decided without Redis")
	}
}

// A worker that sends mails no faster than the provider takes them.
func ExampleLimiter_Do() {
	ctx := context.Background()
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))

	for _, address := range []string{"a@example.com", "b@example.com"} {
		err := l.Do(ctx, "mail", limiter.PerSecond(10), func(ctx context.Context) error {
			fmt.Println("sending to", address)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}

// A caller whose deadline is before its turn gets an error at once.
func ExampleLimiter_Wait() {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	switch err := l.Wait(ctx, "report", limiter.PerHour(6)); {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("too busy, try later")
	case err != nil:
		log.Fatal(err)
	}
}

// One round trip for a user's limit and that of all users together. Each is decided
// on its own: the first may take a token although the second is limited.
func ExampleLimiter_AllowMany() {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
	results, err := l.AllowMany(context.Background(), []limiter.Request{
		{Key: "user:42", Limit: limiter.PerMinute(30).Burst(15), Quantity: 1},
		{Key: "everybody", Limit: limiter.PerSecond(1000), Quantity: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	if results[0].Limited() || results[1].Limited() {
		fmt.Println("limited")
	}
}

func ExampleLimit_String() {
	fmt.Println(limiter.PerSecond(10))
	fmt.Println(limiter.PerMinute(30).Burst(15))
	fmt.Println(limiter.PerHour(1))
	fmt.Println(limiter.PerDay(1000))
	fmt.Println(limiter.Per(1, 1500*time.Millisecond).Burst(20))
	// Output:
	// 10 per second, burst 10
	// 30 per minute, burst 15
	// 1 per hour, burst 1
	// 1000 per day, burst 1000
	// 1 per 1.5s, burst 20
}
