// The example of the documentation prints what it says.

package limiter_test

import (
	"fmt"
	"time"

	"funnel/limiter"
)

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
