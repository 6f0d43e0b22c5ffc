// A shadow allows every call. It reports limited calls and calls without a decision.

package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestShadow(t *testing.T) { synctest.Test(t, testShadow) }

func testShadow(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now())
	defer cancelLate()
	ctx, valid, invalid := t.Context(), perDay(1), limiter.PerSecond(-1)
	empty, full, down := limiter.NewLocal(), limiter.NewLocal(), limiter.New(unreachable(t))
	allow(t, full, "user:42", valid)
	for name, row := range map[string]struct {
		l            limiter.Allower
		ctx          context.Context
		limit        limiter.Limit
		quantity     int
		result, told string
	}{
		"limited": {full, ctx, valid, 1, "allowed 1, 0 of 1 remain, reset after 24h0m0s, local",
			"1 tokens, 24h0m0s"},
		"of no tokens": {full, ctx, valid, 0, "allowed 0, 0 of 1 remain, reset after 24h0m0s, local", ""},
		"beyond the capacity": {full, ctx, valid, 2, "allowed 2, 0 of 1 remain, reset after 24h0m0s, local",
			"2 tokens, 2562047h47m16.854775807s"},
		"of a quota": {empty, ctx, limiter.Daily(0, time.UTC), 1, "allowed 1, 0 of 0 remain, reset after 0s, local",
			"1 tokens, 2562047h47m16.854775807s"},
		"without Redis":        {down, ctx, valid, 1, "allowed 1, 0 of 0 remain, reset after 0s, open", "127.0.0.1:1"},
		"of negative quantity": {empty, ctx, valid, -1, "allowed 0, 0 of 0 remain, reset after 0s, open", "quantity"},
		"by an invalid limit": {empty, ctx, invalid, 1, "allowed 1, 0 of 0 remain, reset after 0s, open",
			"-1 per second"},
		"decided too late":         {empty, late, valid, 1, "allowed 1, 0 of 0 remain, reset after 0s, open", "deadline"},
		"of a caller who has gone": {empty, gone, valid, 1, "allowed 1, 0 of 0 remain, reset after 0s, open", ""},
	} {
		told := ""
		l := limiter.Shadow(row.l, func(_ context.Context, result limiter.Result, err error) {
			told = fmt.Sprintf("%d tokens, %v", result.Quantity, result.RetryAfter)
			if err != nil {
				told = err.Error()
			}
		})
		result, err := l.AllowN(row.ctx, "user:42", row.limit, row.quantity)
		require.NoError(t, err, name)
		require.False(t, result.Limited(), name)
		require.Zero(t, result.RetryAfter, name)
		require.Equal(t, row.quantity, result.Quantity, name)
		require.Equal(t, row.result, fmt.Sprintf("allowed %d, %d of %d remain, reset after %v, %s",
			result.Allowed, result.Remaining, result.Limit.Capacity, result.ResetAfter, result.Source), name)
		require.Contains(t, told, row.told, name)
		require.Equal(t, row.told == "", told == "", name)
	}

	// Without a report there is a line for each. A call that is allowed takes its tokens.
	previous, log := slog.Default(), new(strings.Builder)
	defer slog.SetDefault(previous)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	for _, l := range []limiter.Allower{empty, empty, down} {
		result, err := limiter.Shadow(l, nil).AllowN(ctx, "user:42", valid, 1)
		require.NoError(t, err)
		require.False(t, result.Limited())
	}
	require.Regexp(t, `^.*level=INFO .*key=user:42 limit="1 per day, capacity 1" quantity=1 retry_after=24h0m0s\n`+
		`.*level=ERROR .*key=user:42 error=.*127.0.0.1:1.*\n$`, log.String())

	for _, none := range []limiter.Allower{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "limiter: Shadow needs a Limiter, not nil", func() { limiter.Shadow(none, nil) })
	}
}
