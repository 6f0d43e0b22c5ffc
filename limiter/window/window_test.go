package window_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter/window"
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

// members are the calls that a window counts, with their times, the first first.
func members(t testing.TB, client redis.UniversalClient) []redis.Z {
	t.Helper()
	members, err := client.ZRangeWithScores(context.Background(), window.Key("laoqian", "reply"), 0, -1).Result()
	require.NoError(t, err)
	return members
}

func TestIsActionAllowed(t *testing.T) {
	steps := []struct {
		name string
		at   time.Duration
		want bool
	}{
		{"first", 0, true},
		{"in the same instant", 0, true},
		{"a microsecond later", time.Microsecond, true},
		{"too many", time.Microsecond, false},
		{"just before the first leaves", time.Minute - time.Microsecond, false},
		{"the first leaves", time.Minute, true},
		{"and the second with it", time.Minute, true},
		{"but not the third", time.Minute, false},
		{"the third leaves", time.Minute + time.Microsecond, true},
		{"a whole period later", 2 * time.Minute, true},
	}
	watch := &watch{}
	windows := window.New(connect(t), watch.now)
	for _, step := range steps {
		watch.Time = start.Add(step.at)
		got, err := windows.IsActionAllowed(context.Background(), "laoqian", "reply", time.Minute, 3)
		require.NoError(t, err, step.name)
		require.Equal(t, step.want, got, step.name)
	}
}

// Two calls are as far apart as their whole microseconds are.
func TestMicroseconds(t *testing.T) {
	client := connect(t)
	for _, test := range []struct {
		name          string
		period        time.Duration
		first, second time.Duration
		want          bool
	}{
		{"a microsecond too early", time.Minute, 1999, time.Minute + 999, false},
		{"the same nanosecond, a period later", time.Minute, 999, time.Minute + 999, true},
		{"a period of a nanosecond is one of a microsecond", 1, 0, 999, false},
		{"and no longer", 1, 0, 1000, true},
		{"a period of 1.5 microseconds is one of 2", 1500, 0, 1999, false},
		{"and no longer, either", 1500, 0, 2000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			watch := &watch{start.Add(test.first)}
			windows := window.New(client, watch.now)
			ask := func() bool {
				allowed, err := windows.IsActionAllowed(context.Background(), test.name, "reply", test.period, 1)
				require.NoError(t, err)
				return allowed
			}
			require.True(t, ask())
			// The key lasts for a second only, by the real clock.
			require.NoError(t, client.Persist(context.Background(), window.Key(test.name, "reply")).Err())
			watch.Time = start.Add(test.second)
			require.Equal(t, test.want, ask())
		})
	}
}

// A bug of the textbook version: there, limited calls prolong the wait.
func TestLimitedCallsDoNotProlongTheWait(t *testing.T) {
	client, watch := connect(t), &watch{start}
	windows := window.New(client, watch.now)
	ask := func() bool {
		allowed, err := windows.IsActionAllowed(context.Background(), "laoqian", "reply", time.Minute, 2)
		require.NoError(t, err)
		return allowed
	}
	require.True(t, ask())
	require.True(t, ask())
	counted := members(t, client)
	for watch.Before(start.Add(time.Minute - time.Second)) {
		watch.Time = watch.Add(time.Second)
		require.False(t, ask(), watch.Time)
		require.Equal(t, counted, members(t, client), "a limited call is not stored")
	}
	watch.Time = start.Add(time.Minute)
	require.True(t, ask())
}

// A lower limit counts what a higher one has allowed, and removes none of it for
// calls with the higher one.
func TestMaxCountMayChange(t *testing.T) {
	client, watch := connect(t), &watch{start}
	windows := window.New(client, watch.now)
	ask := func(maxCount int) bool {
		allowed, err := windows.IsActionAllowed(context.Background(), "laoqian", "reply", time.Minute, maxCount)
		require.NoError(t, err)
		return allowed
	}
	for range 10 {
		require.True(t, ask(10))
		watch.Time = watch.Add(time.Second)
	}
	require.False(t, ask(2))
	require.Len(t, members(t, client), 10)
	require.False(t, ask(10))
	require.True(t, ask(11))

	watch.Time = start.Add(time.Minute + 8*time.Second) // leaves the tenth and the eleventh
	require.False(t, ask(2))
	watch.Time = start.Add(time.Minute + 9*time.Second)
	require.True(t, ask(2))
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

func TestReset(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	windows := window.New(client, nil)
	for _, user := range []string{"laoqian", "laozhang"} {
		allowed, err := windows.IsActionAllowed(ctx, user, "reply", time.Hour, 1)
		require.NoError(t, err)
		require.True(t, allowed)
	}
	require.NoError(t, windows.Reset(ctx, "laoqian", "reply"))
	allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Hour, 1)
	require.NoError(t, err)
	require.True(t, allowed)
	allowed, err = windows.IsActionAllowed(ctx, "laozhang", "reply", time.Hour, 1)
	require.NoError(t, err)
	require.False(t, allowed, "another user")
}

// A transaction cannot stop at an error. The comment of IsActionAllowed says so.
func TestKeyOfAnotherTypeKeepsItsValueButExpires(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	windows := window.New(client, nil)
	require.NoError(t, client.Set(ctx, window.Key("laoqian", "reply"), "text", 0).Err())
	allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 1)
	require.ErrorContains(t, err, "window: WRONGTYPE")
	require.False(t, allowed)
	require.Equal(t, "text", client.Get(ctx, window.Key("laoqian", "reply")).Val())
	require.Positive(t, client.TTL(ctx, window.Key("laoqian", "reply")).Val())
}

func TestErrors(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	windows := window.New(client, nil)

	for _, period := range []time.Duration{0, -1} {
		allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", period, 1)
		require.ErrorIs(t, err, window.ErrPeriod)
		require.ErrorContains(t, err, period.String())
		require.False(t, allowed)
	}
	for _, maxCount := range []int{0, -1} {
		allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, maxCount)
		require.ErrorIs(t, err, window.ErrMaxCount)
		require.False(t, allowed)
	}

	gone := servertest.Start(t, servertest.Options{})
	windows = window.New(gone.Client(t, func(options *redis.Options) { options.DialerRetries = 1 }), nil)
	gone.Stop()
	allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 1)
	require.Error(t, err)
	require.False(t, allowed)
	require.Error(t, windows.Reset(ctx, "laoqian", "reply"))
}
