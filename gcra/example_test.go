// How a program uses the arithmetic: the pages of go doc show this example.

package gcra_test

import (
	"fmt"

	"funnel/gcra"
)

// A limiter stores one number, the TAT of each decision, and passes it to the next
// call. A limited call waits as long as RetryAfter says.
func ExampleRate_Decide() {
	rate, _ := gcra.NewRate(2, 1, 1e9) // holds 2 tokens, leaks 1 per second
	tat, now := gcra.Empty, int64(1_800_000_000*1e9)

	for range 5 {
		decision, _ := rate.Decide(tat, now, 1)
		tat = decision.TAT
		if decision.Limited {
			fmt.Println("limited, waiting", decision.RetryAfter(), "ns")
			now += decision.RetryAfter()
			continue
		}
		fmt.Println("allowed,", decision.Remaining, "remaining")
	}
	// Output:
	// allowed, 1 remaining
	// allowed, 0 remaining
	// limited, waiting 1000000000 ns
	// allowed, 0 remaining
	// limited, waiting 1000000000 ns
}
