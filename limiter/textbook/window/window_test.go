package window_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter/textbook/window"
)

// start is when the clocks of these tests begin. Servers count only what is left
// of a period, so any year does.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// connect starts a server without any module.
func connect(t testing.TB) *redis.Client {
	t.Helper()
	return servertest.Start(t, servertest.Options{}).Client(t)
}

// A watch is a clock that tests set.
type watch struct{ time.Time }

func (w *watch) now() time.Time { return w.Time }

// A hook runs before each ZADD that is not part of a transaction, or sends each transaction
// twice.
type hook struct {
	before func()
	twice  bool
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if h.twice {
			_ = next(ctx, commands)
		}
		return next(ctx, commands)
	}
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if h.before != nil && command.Name() == "zadd" {
			h.before()
		}
		return next(ctx, command)
	}
}

// A call out of order that is removed between its two round trips is not counted, so it
// is limited.
func TestCallThatIsRemovedBeforeItIsMoved(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{})
	client, slow := server.Client(t), server.Client(t)
	ask := func(rdb *redis.Client, at time.Duration) bool {
		watch := watch{start.Add(at)}
		allowed, err := window.New(rdb, watch.now).IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 2)
		require.NoError(t, err)
		return allowed
	}
	require.True(t, ask(client, 30*time.Second))
	slow.AddHook(hook{before: func() {
		require.True(t, ask(client, time.Minute), "the call out of order is gone, and only one is left")
	}})
	require.False(t, ask(slow, 0))
	require.EqualValues(t, 2, client.ZCard(ctx, window.Key("laoqian", "reply")).Val())
	require.Contains(t, client.Info(ctx, "commandstats").Val(), "cmdstat_exec:calls=3,", "each call is one transaction")
}

// go-redis sends a transaction again when its connection breaks in the middle: that counts
// once, and is answered as the first time.
func TestRepeatedCallCountsOnce(t *testing.T) {
	ctx, client := context.Background(), connect(t)
	client.AddHook(hook{twice: true})
	windows := window.New(client, nil)
	for i := range 4 {
		allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Hour, 3)
		require.NoError(t, err)
		require.Equal(t, i < 3, allowed)
		require.EqualValues(t, min(i+1, 3), client.ZCard(ctx, window.Key("laoqian", "reply")).Val())
	}
	require.Contains(t, client.Info(ctx, "commandstats").Val(), "cmdstat_exec:calls=8,")
}

func TestKeyExpires(t *testing.T) {
	client := connect(t)
	windows := window.New(client, nil)
	for _, period := range []time.Duration{time.Minute, 24 * time.Hour, 1<<63 - 1} {
		for range 2 {
			_, err := windows.IsActionAllowed(context.Background(), period.String(), "reply", period, 1)
			require.NoError(t, err)
			left, err := client.PTTL(context.Background(), window.Key(period.String(), "reply")).Result()
			require.NoError(t, err)
			require.Greater(t, left, period-servertest.Patience)
			require.Greater(t, left, time.Duration(0))
			require.LessOrEqual(t, left-time.Second, period)
		}
	}
}

// Errors of the call change nothing. But a transaction cannot stop at an error, so a key
// of another type keeps its value and will expire.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	client, gone := connect(t), servertest.Start(t, servertest.Options{})
	unreachable := gone.Client(t, func(options *redis.Options) { options.DialerRetries = 1 })
	gone.Stop()
	key := window.Key("laoqian", "reply")
	require.NoError(t, client.Set(ctx, key, "text", 0).Err())
	for _, test := range []struct {
		rdb      *redis.Client
		period   time.Duration
		maxCount int
		want     string
	}{
		{client, 0, 1, "window: period must be above 0, not 0s"},
		{client, -1, 1, "window: period must be above 0, not -1ns"},
		{client, 1, 0, "window: maxCount must be at least 1, not 0"},
		{client, 1, -1, "window: maxCount must be at least 1, not -1"},
		{unreachable, 1, 1, "window: "},
		{client, time.Minute, 1, "window: WRONGTYPE "},
	} {
		require.Equal(t, time.Duration(-1), client.TTL(ctx, key).Val(), "no expiry")
		allowed, err := window.New(test.rdb, nil).IsActionAllowed(ctx, "laoqian", "reply", test.period, test.maxCount)
		require.Error(t, err)
		require.True(t, strings.HasPrefix(err.Error(), test.want), err)
		require.False(t, allowed)
	}
	require.Equal(t, "text", client.Get(ctx, key).Val())
	require.Positive(t, client.TTL(ctx, key).Val())
	require.ErrorContains(t, window.New(unreachable, nil).Reset(ctx, "laoqian", "reply"), "window: ")
}

// TestBytesPerAction measures what the package comment says about memory.
func TestBytesPerAction(t *testing.T) {
	ctx := context.Background()
	client, watch := connect(t), &watch{start}
	windows := window.New(client, watch.now)
	for _, test := range []struct{ count, least, most int }{{100, 20, 35}, {10_000, 90, 140}} {
		user := strconv.Itoa(test.count)
		for range test.count {
			watch.Time = watch.Add(time.Millisecond)
			allowed, err := windows.IsActionAllowed(ctx, user, "reply", time.Hour, test.count)
			require.NoError(t, err)
			require.True(t, allowed)
		}
		bytes, err := client.MemoryUsage(ctx, window.Key(user, "reply"), 0).Result()
		require.NoError(t, err)
		perAction := int(bytes) / test.count
		t.Logf("%d actions: %d bytes each", test.count, perAction)
		require.True(t, perAction >= test.least && perAction <= test.most)
	}
}
