package servertest

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// StartModule starts a server with the module and load arguments, such as "compat",
// "redis-cell".
func StartModule(t testing.TB, arguments ...string) *Server {
	t.Helper()
	return Start(t, Options{Module: Module(t), ModuleArguments: arguments})
}

// StartClient starts a server with the module and connects to it.
func StartClient(t testing.TB) *redis.Client {
	t.Helper()
	return StartModule(t).Client(t)
}

// QuickOrLong picks the size of a test: quick by default, so that the suite can
// run against many servers, long when FUNNEL_LONG is set.
func QuickOrLong[T any](quick, long T) T {
	if os.Getenv("FUNNEL_LONG") != "" {
		return long
	}
	return quick
}

// StillPeriod is the seconds in which a still funnel leaks one token: 11 days. No
// test takes that long, so such a funnel allows exactly its capacity.
const StillPeriod = 1_000_000
