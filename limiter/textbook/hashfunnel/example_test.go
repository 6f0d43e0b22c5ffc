package hashfunnel_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
	"funnel/limiter/textbook/hashfunnel"
)

// rdb is the client of the examples.
var rdb *redis.Client

func TestMain(m *testing.M) {
	os.Exit(servertest.RunWithClient(m, func(client *redis.Client) { rdb = client }))
}

// The usual example: twenty replies at once, of which the funnel holds fifteen.
func ExampleFunnels_IsActionAllowed() {
	ctx := context.Background()
	now := time.Now()
	funnels := hashfunnel.New(rdb, func() time.Time { return now })
	replies := func(count int) (allowed int) {
		for range count {
			ok, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", 15, 0.5)
			if err != nil {
				fmt.Println(err)
			}
			if ok {
				allowed++
			}
		}
		return allowed
	}

	fmt.Println(replies(20))
	now = now.Add(2 * time.Second)
	fmt.Println(replies(20))
	// Output:
	// 15
	// 1
}

func ExampleFunnels_Reset() {
	ctx := context.Background()
	funnels := hashfunnel.New(rdb, nil)
	for range 3 {
		fmt.Println(funnels.IsActionAllowed(ctx, "laoqian", "login", 1, 0.001))
	}
	fmt.Println(funnels.Reset(ctx, "laoqian", "login"))
	fmt.Println(funnels.IsActionAllowed(ctx, "laoqian", "login", 1, 0.001))
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleKey() {
	fmt.Println(hashfunnel.Key("a:b", "c"))
	// Output: funnel:a%3Ab:c
}
