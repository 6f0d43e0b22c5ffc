package servertest

import (
	"testing"
	"testing/synctest"
	"time"
)

// Bubble is synctest.Test with a deadline by the real clock. In a bubble, time passes as soon as
// every goroutine waits. So a loop that never ends runs there at full speed until go test gives up,
// which takes ten minutes and does not say which test it was.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	name := t.Name()
	deadline := time.AfterFunc(2*Patience, func() {
		panic(name + " has not ended within 2 minutes: what goes on for ever?")
	})
	defer deadline.Stop()
	synctest.Test(t, f)
}
