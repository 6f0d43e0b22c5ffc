// Programs tell errors apart by errors.Is: what is wrong with the call (400), what Redis failed at (503), and what
// would take too long (429).

package limiter_test

import (
	"context"
	"encoding"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

// Each method returns ErrInvalid for a call that is wrong, whatever the policy, and sends nothing.
func TestErrInvalid(t *testing.T) {
	t.Parallel()
	ctx, none := t.Context(), limiter.Limit{}
	l := limiter.New(clientFunc(func(context.Context, redis.Cmder) error { panic("something was sent") }),
		limiter.OnFailure(limiter.FailOpen))
	charged := limiter.Result{Key: "key", Allowed: 1}
	for name, call := range map[string]func() error{
		"Allow":       func() error { _, err := l.Allow(ctx, "key", none); return err },
		"AllowN":      func() error { _, err := l.AllowN(ctx, "key", fifteenPerDay, -1); return err },
		"AllowAtMost": func() error { _, err := l.AllowAtMost(ctx, "key", none, 1); return err },
		"AllowAll":    func() error { _, err := l.AllowAll(ctx); return err },
		"Peek":        func() error { _, err := l.Peek(ctx, "key", none); return err },
		"PeekAll":     func() error { _, err := l.PeekAll(ctx, limiter.Slots{}.At("key")); return err },
		"Charge":      func() error { _, err := l.Charge(ctx, "key", none, 1); return err },
		"Reserve":     func() error { _, err := l.Reserve(ctx, "key", none, 1, time.Second); return err },
		"Settle":      func() error { _, err := l.Settle(ctx, &charged, 2); return err },
		"Settle nil":  func() error { _, err := l.Settle(ctx, nil, 0); return err },
		"TryAcquire":  func() error { _, err := l.TryAcquire(ctx, "key", limiter.Slots{}); return err },
		"Wait":        func() error { return l.Wait(ctx, "key", none) },
		"WaitN":       func() error { return l.WaitN(ctx, "key", fifteenPerDay, -1) },
		"WaitAll":     func() error { _, err := l.WaitAll(ctx); return err },
	} {
		err := call()
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.NotErrorIs(t, err, limiter.ErrUnavailable, name)
	}
	_, err := l.Allow(ctx, "key", limiter.Limit{Count: 1, Period: time.Second})
	require.ErrorIs(t, err, gcra.ErrCapacity, "the error of package gcra is inside")
}

// Each method returns ErrUnavailable if Redis does not decide, but the methods to which another policy applies.
func TestErrUnavailable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := limiter.New(unreachable(t))
	charged := limiter.Result{Key: "key", Limit: fifteenPerDay, Allowed: 1, Receipt: 1}
	for name, call := range map[string]func() error{
		"Allow":       func() error { _, err := l.Allow(ctx, "key", fifteenPerDay); return err },
		"AllowAll":    func() error { _, err := l.AllowAll(ctx, limiter.Request{"key", fifteenPerDay, 1}); return err },
		"AllowAtMost": func() error { _, err := l.AllowAtMost(ctx, "key", fifteenPerDay, 1); return err },
		"Peek":        func() error { _, err := l.Peek(ctx, "key", fifteenPerDay); return err },
		"PeekAll":     func() error { _, err := l.PeekAll(ctx, twoFor3s.At("key")); return err },
		"Charge":      func() error { _, err := l.Charge(ctx, "key", fifteenPerDay, 1); return err },
		"Reserve":     func() error { _, err := l.Reserve(ctx, "key", fifteenPerDay, 1, time.Second); return err },
		"Reset":       func() error { return l.Reset(ctx, "key") },
		"Settle":      func() error { _, err := l.Settle(ctx, &charged, 0); return err },
		"TryAcquire":  func() error { _, err := l.TryAcquire(ctx, "key", twoFor3s); return err },
		"Wait":        func() error { return l.Wait(ctx, "key", fifteenPerDay) },
		"WaitAll":     func() error { _, err := l.WaitAll(ctx, limiter.Request{"key", fifteenPerDay, 1}); return err },
	} {
		err := call()
		require.ErrorIs(t, err, limiter.ErrUnavailable, name)
		require.NotErrorIs(t, err, limiter.ErrInvalid, name)
	}
}

func TestFailurePolicyInConfiguration(t *testing.T) {
	t.Parallel()
	var _ encoding.TextUnmarshaler = new(limiter.FailurePolicy)
	for _, policy := range []limiter.FailurePolicy{limiter.FailWithError, limiter.FailOpen, limiter.FailClosed,
		limiter.FailLocal} {
		flags, got := flag.NewFlagSet("test", flag.ContinueOnError), limiter.FailOpen
		flags.TextVar(&got, "on-failure", limiter.FailWithError, "")
		require.NoError(t, flags.Parse([]string{"-on-failure", policy.String()}))
		require.Equal(t, policy, got)
	}
	unchanged := limiter.FailLocal
	require.EqualError(t, unchanged.UnmarshalText([]byte("Open")),
		`limiter: a failure policy is one of ["error" "open" "closed" "local"], not "Open"`)
	require.Equal(t, limiter.FailLocal, unchanged)
}

// A program that sleeps for RetryAfter does not spin: never is the longest time.
func TestZeroResults(t *testing.T) {
	t.Parallel()
	require.True(t, limiter.Result{}.Limited())
	require.True(t, limiter.Results{}.Limited())
	require.True(t, limiter.Acquisition{}.Limited())
	require.Greater(t, limiter.NoRetry, 100*365*24*time.Hour)
	never := limiter.Results{{OK: true}, {RetryAfter: time.Second}, {RetryAfter: limiter.NoRetry}}
	require.Equal(t, limiter.NoRetry, never.RetryAfter())
	require.Equal(t, time.Second, never[:2].RetryAfter())
	require.Zero(t, never[:1].RetryAfter(), "allowed")
}
