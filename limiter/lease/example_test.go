package lease_test

import (
	"context"
	"fmt"
	"time"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// A hot key is decided by tokens that are taken ahead: most calls cost no round trip.
func ExampleNew() {
	leases := lease.New(limiter.NewLocal(), 50*time.Millisecond) // in a program: limiter.New(rdb)
	limit := limiter.PerSecond(2000).WithCapacity(400)
	allowed := 0
	for range 200 {
		result, err := leases.Allow(context.Background(), "tenant:42", limit)
		if err == nil && !result.Limited() {
			allowed++
		}
	}
	fmt.Println(allowed)
	// Output: 200
}

// With a span of 0, leases take nothing ahead. They only refuse calls that Redis would certainly
// refuse.
func ExampleLeases_AllowN() {
	l := limiter.NewLocal()
	leases := lease.New(l, 0)
	for range 3 {
		result, err := leases.AllowN(context.Background(), "user:42", limiter.PerHour(1), 1)
		fmt.Println(result.Limited(), result.Source, err)
	}
	// Output:
	// false local <nil>
	// true local <nil>
	// true local <nil>
}
