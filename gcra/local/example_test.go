package local_test

import (
	"fmt"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// The usual example: twenty replies at once, of which the funnel holds fifteen.
func Example() {
	now := time.Unix(1_800_000_000, 0)
	funnels := local.New(func() time.Time { return now })

	for range 20 {
		allowed, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(allowed)
	}
	// Output:
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// true
	// false
	// false
	// false
	// false
	// false
}

// Funnels of one set may differ in rate. Empty ones are removed.
func ExampleFunnels_Water() {
	now := time.Unix(1_800_000_000, 0)
	funnels := local.New(func() time.Time { return now })
	rate, err := gcra.NewRate(15, 30, int64(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, quantity := range []int64{10, 10} {
		decision, err := funnels.Water("laoqian:reply", rate, quantity)
		if err != nil {
			fmt.Println(err)
			return
		}
		if decision.Limited {
			fmt.Println("limited, retry after", time.Duration(decision.RetryAfter()))
		} else {
			fmt.Println("allowed,", decision.Remaining, "remaining")
		}
	}
	fmt.Println(funnels.Len(), "funnel is kept")

	now = now.Add(time.Minute)
	if _, err := funnels.Water("somebody:else", rate, 0); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(funnels.Len(), "funnels are kept")
	// Output:
	// allowed, 5 remaining
	// limited, retry after 10s
	// 1 funnel is kept
	// 0 funnels are kept
}

func ExampleFunnel_Watering() {
	now := time.Unix(1_800_000_000, 0)
	rate, err := local.NewRate(2, 0.5) // holds 2 tokens, leaks one every 2 seconds
	if err != nil {
		fmt.Println(err)
		return
	}
	funnel := local.NewFunnel(rate, func() time.Time { return now })

	for range 4 {
		decision, err := funnel.Watering(1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if decision.Limited {
			wait := time.Duration(decision.RetryAfter())
			fmt.Println("limited, waiting", wait)
			now = now.Add(wait)
			continue
		}
		fmt.Println("allowed,", decision.Remaining, "remaining")
	}
	// Output:
	// allowed, 1 remaining
	// allowed, 0 remaining
	// limited, waiting 2s
	// allowed, 0 remaining
}

func ExampleKey() {
	fmt.Println(local.Key("laoqian", "reply"))
	fmt.Println(local.Key("a:b", "c"))
	fmt.Println(local.Key("a", "b:c"))
	// Output:
	// laoqian:reply
	// a%3Ab:c
	// a:b:c
}

func ExampleNewRate() {
	rate, err := local.NewRate(15, 0.5)
	fmt.Println(time.Duration(rate.EmissionInterval()), time.Duration(rate.Tolerance()), err)

	_, err = local.NewRate(15, -1)
	fmt.Println(err)
	// Output:
	// 2s 30s <nil>
	// leaking rate must be above 0 and at most 1e9 tokens per second
}
