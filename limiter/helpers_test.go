package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A limit whose funnel leaks nothing while a test runs.
var fifteenPerDay = limiter.PerDay(15)

// withModule starts a server with the module.
func withModule(t testing.TB, arguments ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Module: servertest.Module(t), ModuleArguments: arguments})
}

// bare starts a server without the module.
func bare(t testing.TB) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{})
}

// onBoth runs a test by module and by script.
func onBoth(t *testing.T, test func(t *testing.T, client *redis.Client, path limiter.Path)) {
	t.Run("module", func(t *testing.T) { test(t, withModule(t).Client(t), limiter.PathModule) })
	t.Run("script", func(t *testing.T) { test(t, bare(t).Client(t), limiter.PathScript) })
}

// allow is Allow, which must not fail.
func allow(t testing.TB, l *limiter.Limiter, key string, limit limiter.Limit) limiter.Result {
	t.Helper()
	result, err := l.Allow(context.Background(), key, limit)
	require.NoError(t, err)
	return result
}

// A steppedClock is the clock of the process and of a server whose module has
// FUNNEL.DEBUG; Sleep advances it.
type steppedClock struct {
	t      testing.TB
	client *redis.Client
	now    time.Time
	slept  []time.Duration
}

// startStepped starts such a server. The year is one in which no key expires by the
// real clock.
func startStepped(t testing.TB) (*redis.Client, *steppedClock) {
	t.Helper()
	client := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	clock := &steppedClock{t: t, client: client, now: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	clock.advance(0)
	return client, clock
}

func (c *steppedClock) Now() time.Time { return c.now }

func (c *steppedClock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.slept = append(c.slept, d)
	c.advance(d)
	return nil
}

func (c *steppedClock) advance(d time.Duration) {
	c.t.Helper()
	c.now = c.now.Add(d)
	require.NoError(c.t, c.client.Do(context.Background(), "funnel.debug", "clock", c.now.UnixNano()).Err())
}
