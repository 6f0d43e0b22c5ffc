package local_test

import (
	"fmt"
	"log"
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
			log.Fatal(err)
		}
		fmt.Print(allowed, " ")
	}
	// Output:
	// true true true true true true true true true true true true true true true false false false false false
}

// Funnels of one set may differ in rate. Empty ones are removed.
func ExampleFunnels_Take() {
	now := time.Unix(1_800_000_000, 0)
	funnels := local.New(func() time.Time { return now })
	rate, err := gcra.NewRate(15, 30, int64(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	take := func(key string, quantity int64) {
		decision, err := funnels.Take(key, rate, quantity)
		fmt.Println(decision.Limited, decision.Remaining, time.Duration(decision.RetryAfter()), err, funnels.Len())
	}

	take("laoqian:reply", 10)
	take("laoqian:reply", 10)
	now = now.Add(time.Minute)
	take("somebody:else", 0)
	// Output:
	// false 5 -1ns <nil> 1
	// true 5 10s <nil> 1
	// false 15 -1ns <nil> 0
}

func ExampleFunnel_Take() {
	now := time.Unix(1_800_000_000, 0)
	rate, err := local.NewRate(2, 0.5) // holds 2 tokens, leaks one every 2 seconds
	if err != nil {
		log.Fatal(err)
	}
	funnel := local.NewFunnel(rate, func() time.Time { return now })

	for _, wait := range []time.Duration{0, 0, 0, 2 * time.Second} {
		now = now.Add(wait)
		decision, err := funnel.Take(1)
		fmt.Println(decision.Limited, decision.Remaining, time.Duration(decision.RetryAfter()), err)
	}
	// Output:
	// false 1 -1ns <nil>
	// false 0 -1ns <nil>
	// true 0 2s <nil>
	// false 0 -1ns <nil>
}

func ExampleKey() {
	fmt.Println(local.Key("laoqian", "reply"))
	fmt.Println(local.Key("a:b", "c"))
	fmt.Println(local.Key("a", "b:c"))
	fmt.Println(local.Key("a%3Ab", "c"))
	// Output:
	// laoqian:reply
	// a%3Ab:c
	// a:b:c
	// a%253Ab:c
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
