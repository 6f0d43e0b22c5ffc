package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// A program makes one Limiter, and passes key and limit with each call. ContextTimeoutEnabled lets
// a caller send its command itself; without retries, an error returns at once.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:1",
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
	})
	defer rdb.Close()
	redis.SetLogger(nobody{})
	l := limiter.New(rdb, limiter.WithPrefix("app:"), limiter.OnFailure(limiter.FailLocal),
		limiter.WithLogger(slog.New(slog.DiscardHandler)))

	result, err := l.Allow(context.Background(), "user:42", limiter.PerMinute(30).WithCapacity(15))
	fmt.Println(result.Limited(), result.Remaining, result.Source, err) // there is no Redis here
	// Output: false 14 local <nil>
}

// nobody reads what go-redis logs.
type nobody struct{}

func (nobody) Printf(context.Context, string, ...any) {}

// A funnel of capacity 2 lets two calls through at once. NewLocal decides in this process; with New
// the same calls are decided in Redis, for all processes together.
func ExampleLimiter_Allow() {
	ctx, l := context.Background(), limiter.NewLocal()
	limit := limiter.PerMinute(1).WithCapacity(2)
	for range 3 {
		result, err := l.Allow(ctx, "user:42", limit)
		if err != nil {
			fmt.Println(err)
			return
		}
		if result.Limited() {
			fmt.Println("limited: try again in", result.RetryAfter.Round(time.Second))
			continue
		}
		fmt.Println("allowed:", result.Remaining, "left")
	}
	// Output:
	// allowed: 1 left
	// allowed: 0 left
	// limited: try again in 1m0s
}

// Several limits are decided together: if one of them refuses, the others keep their tokens.
func ExampleLimiter_AllowAll() {
	ctx, l := context.Background(), limiter.NewLocal()
	second := limiter.Request{Key: "{user:42}:second", Limit: limiter.PerSecond(10), Quantity: 1}
	hour := limiter.Request{Key: "{user:42}:hour", Limit: limiter.PerHour(2), Quantity: 1}
	for range 3 {
		results, err := l.AllowAll(ctx, second, hour)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(results.Limited(), "this hour:", results[1].Remaining)
	}
	// Output:
	// false this hour: 1
	// false this hour: 0
	// true this hour: 0
}

// A batch takes what there is.
func ExampleLimiter_AllowAtMost() {
	result, err := limiter.NewLocal().AllowAtMost(context.Background(), "mails", limiter.PerHour(100), 250)
	fmt.Println(result.Allowed, result.Remaining, err)
	// Output: 100 0 <nil>
}

// Wait sleeps until it is the caller's turn. A caller that could not wait so long is told at once,
// with the time to sleep.
func ExampleLimiter_Wait() {
	l, limit := limiter.NewLocal(limiter.WithMaxWait(time.Second)), limiter.PerHour(1)
	for range 2 {
		err := l.Wait(context.Background(), "api.example.com", limit)
		var late *limiter.WaitError
		if errors.As(err, &late) {
			fmt.Println("not within a second:", late.Key)
			continue
		}
		fmt.Println("go ahead", err)
	}
	// Output:
	// go ahead <nil>
	// not within a second: api.example.com
}

// The cost is known only at the end: take an estimate, and settle what was used.
func ExampleLimiter_Settle() {
	ctx, l := context.Background(), limiter.NewLocal()
	result, err := l.AllowN(ctx, "user:42", limiter.PerHour(10_000), 500)
	if err != nil || result.Limited() {
		fmt.Println(result, err)
		return
	}
	used := 420 // known when the work is done
	after, err := l.Settle(ctx, &result, used)
	fmt.Println(result.Remaining, "and then", after.Remaining, err)
	// Output: 9500 and then 9580 <nil>
}

// One call charges several limits for what was used, whether or not it fits.
func ExampleLimiter_ChargeAll() {
	berlin := time.FixedZone("Berlin", 3600) // in a program: time.LoadLocation("Europe/Berlin")
	results, err := limiter.NewLocal().ChargeAll(context.Background(),
		limiter.Request{Key: "{org}:month", Limit: limiter.Monthly(1_000_000, berlin), Quantity: 1_200},
		limiter.Request{Key: "{org}:team:day", Limit: limiter.Daily(1_000, berlin), Quantity: 1_200})
	for _, result := range results {
		fmt.Println(result.Key, result.Remaining, result.Overdrawn, err)
	}
	// Output:
	// {org}:month 998800 false <nil>
	// {org}:team:day 0 true <nil>
}

// Two limits on what is in flight, and a rate, in one call. The slots are renewed until they are
// released.
func ExampleLimiter_TryAcquire() {
	ctx, l := context.Background(), limiter.NewLocal()
	ofOrg := limiter.Slots{Max: 50, TTL: 30 * time.Second}
	ofKey := limiter.Slots{Max: 1, TTL: 30 * time.Second}
	for range 2 {
		got, err := l.TryAcquire(ctx, ofOrg.At("{org}:slots"), ofKey.At("{org}:key7:slots"),
			limiter.Request{Key: "{org}:minute", Limit: limiter.PerMinute(600), Quantity: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer got.Release(ctx)
		if got.Limited() {
			fmt.Println("limited: try again in", got.RetryAfter())
			continue
		}
		fmt.Println("free slots:", got.Results[0].Remaining, "and", got.Results[1].Remaining)
		// Work with got.Context(), which ends if a slot is lost.
	}
	// Output:
	// free slots: 49 and 0
	// limited: try again in 1s
}

// Acquire waits in line, until another holder releases its slot.
func ExampleLimiter_Acquire() {
	ctx, l := context.Background(), limiter.NewLocal()
	gpu := limiter.Slots{Max: 1, TTL: 30 * time.Second}.At("gpu")
	first, err := l.Acquire(ctx, gpu)
	if err != nil {
		fmt.Println(err)
		return
	}
	time.AfterFunc(10*time.Millisecond, func() {
		fmt.Println("the first is done")
		first.ReleaseSoon(ctx)
	})
	second, err := l.Acquire(ctx, gpu)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the second works")
	second.ReleaseSoon(ctx)

	left, err := l.Drain(ctx) // before the program ends
	fmt.Println(left, err)
	// Output:
	// the first is done
	// the second works
	// 0 <nil>
}

// An admin page shows a customer's limits without taking anything.
func ExampleLimiter_PeekAll() {
	ctx, l := context.Background(), limiter.NewLocal()
	month, minute := limiter.Until(1000, time.Now().AddDate(0, 1, 0)), limiter.PerMinute(60)
	slots := limiter.Slots{Max: 5, TTL: time.Minute}
	if _, err := l.AllowN(ctx, "{u42}:month", month, 700); err != nil {
		fmt.Println(err)
		return
	}
	results, err := l.PeekAll(ctx, slots.At("{u42}:slots"),
		limiter.Request{Key: "{u42}:minute", Limit: minute, Quantity: 1},
		limiter.Request{Key: "{u42}:month", Limit: month, Quantity: 1})
	for _, result := range results {
		fmt.Println(result.Key, result.Remaining, err)
	}
	// Output:
	// {u42}:slots 5 <nil>
	// {u42}:minute 60 <nil>
	// {u42}:month 300 <nil>
}

// A rate of 5 in 15 minutes lets more than 5 through in some stretches of 15 minutes. AtMost never
// does, and Window counts from the first try.
func ExampleAtMost() {
	for _, limit := range []limiter.Limit{limiter.Per(5, 15*time.Minute), limiter.AtMost(5, 15*time.Minute, 3),
		limiter.Window(5, 15*time.Minute)} {
		result, err := limiter.NewLocal().AllowAtMost(context.Background(), "login", limit, 100)
		fmt.Printf("%v: %d at once %v\n", limit, result.Allowed, err)
	}
	// Output:
	// 5 per 15m0s, capacity 5: 5 at once <nil>
	// at most 5 in any 15m0s, 3 at once: 3 at once <nil>
	// 5 in 15m0s from the first call: 5 at once <nil>
}

// Shadow tries a limit on real traffic: it lets every call through, and reports what would be
// limited.
func ExampleShadow() {
	report := func(_ context.Context, result limiter.Result, err error) {
		fmt.Println("would be limited:", result.Key, result.Limit, err)
	}
	shadow := limiter.Shadow(limiter.NewLocal(), report)
	for range 2 {
		result, err := shadow.AllowN(context.Background(), "user:42", limiter.PerHour(1), 1)
		fmt.Println(result.Limited(), err)
	}
	// Output:
	// false <nil>
	// would be limited: user:42 1 per hour, capacity 1 <nil>
	// false <nil>
}

// A hook sees every decision, for metrics, or to find out who is limited.
func ExampleWithHook() {
	l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
		if event.Result.Limited() {
			fmt.Println(event.Command, event.Key)
		}
	}))
	for range 2 {
		_, err := l.Allow(context.Background(), "user:42", limiter.PerHour(1))
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output: reserve user:42
}
