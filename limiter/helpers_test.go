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

// bare starts a server without the module.
func bare(t testing.TB, config ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Config: config})
}

// onBoth runs a test by module and by script.
func onBoth(t *testing.T, test func(t *testing.T, client *redis.Client, path limiter.Path)) {
	t.Run("module", func(t *testing.T) { test(t, servertest.StartClient(t), limiter.PathModule) })
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
	server servertest.Clock
	now    time.Time
	slept  []time.Duration
}

func startStepped(t testing.TB) (*redis.Client, *steppedClock) {
	t.Helper()
	client, server := servertest.StartWithClock(t)
	clock := &steppedClock{t: t, server: server, now: servertest.Epoch}
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
	c.server.Set(c.t, c.now)
}
