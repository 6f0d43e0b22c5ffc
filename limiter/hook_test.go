// Hooks get each decision before its caller, in their order.

package limiter_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var first, second recorder
	both := func(ctx context.Context, event limiter.Event) {
		require.Equal(t, first.last(), event)
		second.hook(ctx, event)
	}
	rdb := connect(t, limiter.PathModule)
	l := limiter.New(rdb, limiter.WithHook(first.hook), limiter.WithPrefix("limits:"), limiter.WithHook(both))
	requireTold := func(event limiter.Event, command string, result limiter.Result, err error) {
		t.Helper()
		require.Positive(t, event.Duration)
		event.Duration = 0
		want := limiter.Event{Command: command, Key: "limits:" + result.Key, Result: result, Err: err, Cause: err}
		require.Equal(t, want, event)
	}
	for command, ask := range commands {
		result, err := ask(l, "key", 1)
		require.NoError(t, err)
		requireTold(second.last(), command, result, nil)
	}
	results, err := l.AllowAll(ctx, limiter.Request{"a", fifteenPerDay, 1}, limiter.Request{"b", fifteenPerDay, 1})
	require.NoError(t, err)
	events := second.all()[len(commands):]
	require.Len(t, events, 2)
	requireTold(events[0], "reserve", results[0], nil)
	requireTold(events[1], "reserve", results[1], nil)

	wrong, err := l.Allow(ctx, "key", limiter.Limit{})
	require.ErrorIs(t, err, gcra.ErrCount)
	requireTold(second.last(), "reserve", wrong, err)
}
