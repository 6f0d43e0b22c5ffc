package gcra_test

import (
	"fmt"

	"funnel/gcra"
)

// A funnel of 15 tokens, of which 30 leak per minute: one every 2 seconds. The caller keeps the TAT
// between calls.
func ExampleFunnel_Reserve() {
	const now = 1_800_000_000_000_000_000
	rate, err := gcra.NewRate(15, 30, 60e9)
	if err != nil {
		panic(err)
	}
	request, err := rate.Request(10)
	if err != nil {
		panic(err)
	}
	stored := gcra.Empty
	for range 2 {
		funnel := gcra.Funnel{Request: request, TAT: stored}
		err := funnel.Reserve(now, 0)
		if err != nil {
			panic(err)
		}
		retryAfter := gcra.Seconds(funnel.RetryAfter())
		fmt.Printf("limited: %t, remaining: %d, retry after: %d s\n", funnel.Limited, funnel.Remaining, retryAfter)
		stored = funnel.NewTAT
	}
	// Output:
	// limited: false, remaining: 5, retry after: -1 s
	// limited: true, remaining: 5, retry after: 10 s
}
