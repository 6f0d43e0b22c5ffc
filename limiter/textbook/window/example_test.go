package window_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
	"funnel/limiter/textbook/window"
)

// rdb is the client of the examples.
var rdb *redis.Client

func TestMain(m *testing.M) {
	os.Exit(servertest.RunWithClient(m, func(client *redis.Client) { rdb = client }))
}

// The usual example: at most five replies in a minute.
func ExampleWindows_IsActionAllowed() {
	ctx := context.Background()
	now := time.Now()
	windows := window.New(rdb, func() time.Time { return now })

	for range 7 {
		allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 5)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(allowed, " ")
		now = now.Add(10 * time.Second)
	}
	// Output:
	// true true true true true false true
}

func ExampleWindows_Reset() {
	ctx := context.Background()
	windows := window.New(rdb, nil)
	for range 3 {
		fmt.Println(windows.IsActionAllowed(ctx, "laoqian", "login", time.Hour, 1))
	}
	fmt.Println(windows.Reset(ctx, "laoqian", "login"))
	fmt.Println(windows.IsActionAllowed(ctx, "laoqian", "login", time.Hour, 1))
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleKey() {
	fmt.Println(window.Key("a:b", "c"))
	// Output: hist:a%3Ab:c
}
