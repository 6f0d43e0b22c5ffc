package limiter_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A limit whose funnel leaks nothing while a test runs: a token in 96 minutes.
var fifteenPerDay = perDay(15)

func perDay(count int) limiter.Limit { return limiter.Per(count, 24*time.Hour) }

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

// only has a Limiter use one way only.
var only = map[limiter.Path]limiter.Option{limiter.PathModule: limiter.WithModuleOnly(), limiter.PathScript: limiter.WithScriptOnly()}

// allow is Allow, which must not fail.
func allow(t testing.TB, l *limiter.Limiter, key string, limit limiter.Limit) limiter.Result {
	t.Helper()
	result, err := l.Allow(context.Background(), key, limit)
	require.NoError(t, err)
	return result
}

// An ask is a method of a Limiter that takes a quantity.
type ask func(l *limiter.Limiter, ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)

var commands = map[string]ask{
	"reserve": (*limiter.Limiter).AllowN, "take": (*limiter.Limiter).AllowAtMost, "charge": (*limiter.Limiter).Charge, "refund": (*limiter.Limiter).Refund,
	"peek": func(l *limiter.Limiter, ctx context.Context, key string, limit limiter.Limit, _ int) (limiter.Result, error) {
		return l.Peek(ctx, key, limit)
	},
}

// once turns retries off, so that errors return at once.
func once(options *redis.Options) { options.MaxRetries, options.DialerRetries = -1, 1 }

// unreachable is a client without a server.
func unreachable(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	return client
}

// as connects as a user who may do what the rules say.
func as(t testing.TB, server *servertest.Server, rules ...string) *redis.Client {
	t.Helper()
	rules = append([]string{"reset", "on", ">secret"}, rules...)
	require.NoError(t, server.Client(t).ACLSetUser(context.Background(), "app", rules...).Err())
	return server.Client(t, func(options *redis.Options) { options.Username, options.Password = "app", "secret" })
}

// A counting client counts round trips.
type counting struct {
	*redis.Client
	trips atomic.Int64
}

func (c *counting) Process(ctx context.Context, command redis.Cmder) error {
	c.trips.Add(1)
	return c.Client.Process(ctx, command)
}

func (c *counting) Pipelined(ctx context.Context, send func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	c.trips.Add(1)
	return c.Client.Pipelined(ctx, send)
}

// A recorder keeps what hooks are told.
type recorder struct {
	mutex sync.Mutex
	told  []limiter.Event
}

func (r *recorder) hook(_ context.Context, event limiter.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.told = append(r.told, event)
}

func (r *recorder) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.told)
}

func (r *recorder) last() limiter.Event { return r.told[len(r.told)-1] }

// A stepped clock is that of the process, and of a server whose module has FUNNEL.DEBUG.
type stepped struct {
	t      testing.TB
	now    time.Time
	server servertest.Clock
}

func startStepped(t testing.TB) (*redis.Client, *stepped) {
	t.Helper()
	client, server := servertest.StartWithClock(t)
	clock := &stepped{t, servertest.Epoch, server}
	clock.advance(0)
	return client, clock
}

// limiter returns a Limiter that goes by the clock.
func (c *stepped) limiter(rdb limiter.Client, options ...limiter.Option) *limiter.Limiter {
	l := limiter.New(rdb, options...)
	limiter.SetNow(l, func() time.Time { return c.now })
	return l
}

func (c *stepped) advance(d time.Duration) {
	c.t.Helper()
	c.now = c.now.Add(d)
	c.server.Set(c.t, c.now)
}
