package servertest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// StartModule starts a server with the module and load arguments, such as "compat", "redis-cell".
func StartModule(t testing.TB, arguments ...string) *Server {
	t.Helper()
	return Start(t, Options{Module: Module(t), ModuleArguments: arguments})
}

// WithLog returns the options of a server with a module and an append-only file. The setting
// appendfsync says when the server writes that file to the disk. More settings follow in pairs.
func WithLog(module, appendfsync string, more ...string) Options {
	config := []string{"--save", "", "--appendonly", "yes", "--appendfsync", appendfsync}
	return Options{Module: module, Config: append(config, more...)}
}

// StartClient starts a server with the module and connects to it.
func StartClient(t testing.TB) *redis.Client {
	t.Helper()
	return StartModule(t).Client(t)
}

// ClientOfUser connects as a user who has only the permissions of these ACL rules.
func (s *Server) ClientOfUser(t testing.TB, rules string) *redis.Client {
	t.Helper()
	setUser := append(Words("acl setuser user reset on >secret"), Words(rules)...)
	require.NoError(t, s.Client(t).Do(context.Background(), setUser...).Err())
	return s.Client(t, func(options *redis.Options) { options.Username, options.Password = "user", "secret" })
}

// QuickOrLong chooses the size of a test: quick by default, because the tests run against many
// servers, and long if FUNNEL_LONG is set.
func QuickOrLong[T any](quick, long T) T {
	if os.Getenv("FUNNEL_LONG") != "" {
		return long
	}
	return quick
}

// NeedsLong skips a test unless FUNNEL_LONG is set, as it is in .ci/run. Because says what takes
// too long for ./build.sh test.
func NeedsLong(t testing.TB, because string) {
	t.Helper()
	if !QuickOrLong(false, true) {
		t.Skip(because + ": set FUNNEL_LONG")
	}
}

// SoakTime returns how long a soak lasts: FUNNEL_SOAK_TIME, or 0 for some seconds.
func SoakTime() time.Duration {
	length, _ := time.ParseDuration(os.Getenv("FUNNEL_SOAK_TIME"))
	return length
}

// LeavingContext returns the context of a caller who gives up: by a deadline, by a cancellation, or
// at the end of the given context. Three of four callers leave within 4 ms. The others stay for up
// to a second, so that some are served on a busy machine, too.
func LeavingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	within := rand.N(4 * time.Millisecond)
	if rand.IntN(4) == 0 {
		within = rand.N(time.Second)
	}
	if rand.IntN(2) == 0 {
		return context.WithTimeout(ctx, within)
	}
	leaving, cancel := context.WithCancel(ctx)
	time.AfterFunc(within, cancel)
	return leaving, cancel
}

// Seed returns the seed of a random test, and logs it. The variable FUNNEL_SEED repeats the run
// with that seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	text := os.Getenv("FUNNEL_SEED")
	if text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "FUNNEL_SEED")
	}
	t.Logf("to repeat this: FUNNEL_SEED=%d", seed)
	return seed
}

// StillPeriod is the seconds in which a still funnel leaks one token: 11 days. No test takes that
// long, so such a funnel allows exactly its capacity.
const StillPeriod = 1_000_000
