package servertest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// pollInterval is how long to wait before a server is asked again.
const pollInterval = 5 * time.Millisecond

// Await waits until nothing is missing any more, for as long as [Patience] lasts. It
// looks again after each interval.
func Await(t testing.TB, interval time.Duration, what string, missing func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(errors.Join(fmt.Errorf("in vain waited until %s", what), err))
		}
		time.Sleep(interval)
	}
}
