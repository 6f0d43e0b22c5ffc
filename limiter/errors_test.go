// Programs tell errors apart by errors.Is: a wrong call (400), a failure of Redis (503), a wait
// that is too long (429).

package limiter_test

import (
	"context"
	"encoding"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// calls calls each method once, for a quantity of a limit or for slots, and returns the errors.
func calls(ctx context.Context, l *limiter.Limiter, limit limiter.Limit, quantity int,
	slots limiter.Slots) map[string]error {
	charged := limiter.Result{Key: "key", Limit: limit, Allowed: 1, Receipt: 1}
	request := limiter.Request{Key: "key", Limit: limit, Quantity: quantity}
	errs := map[string]error{}
	errs["Wait"] = l.Wait(ctx, "key", limit)
	errs["WaitN"] = l.WaitN(ctx, "key", limit, quantity)
	_, errs["Allow"] = l.Allow(ctx, "key", limit)
	_, errs["AllowN"] = l.AllowN(ctx, "key", limit, quantity)
	_, errs["AllowAtMost"] = l.AllowAtMost(ctx, "key", limit, quantity)
	_, errs["AllowAll"] = l.AllowAll(ctx, request)
	_, errs["Peek"] = l.Peek(ctx, "key", limit)
	_, errs["PeekAll"] = l.PeekAll(ctx, slots.At("key"))
	_, errs["Charge"] = l.Charge(ctx, "key", limit, quantity)
	_, errs["Reserve"] = l.Reserve(ctx, "key", limit, quantity, time.Second)
	_, errs["Settle"] = l.Settle(ctx, &charged, 0)
	_, errs["TryAcquire"] = l.TryAcquire(ctx, slots.At("key"))
	_, errs["WaitAll"] = l.WaitAll(ctx, request)
	return errs
}

// Each method returns ErrInvalid for a call that is wrong, whatever the policy, and sends nothing.
func TestErrInvalid(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := limiter.New(clientFunc(func(context.Context, redis.Cmder) error { panic("something was sent") }),
		limiter.OnFailure(limiter.FailOpen))
	errs := calls(ctx, l, limiter.Limit{}, 1, limiter.Slots{})
	_, errs["Settle nil"] = l.Settle(ctx, nil, 0)
	_, errs["AllowAll of nothing"] = l.AllowAll(ctx)
	_, errs["AllowAll of no tokens"] = l.AllowAll(ctx, limiter.Request{"key", fifteenPerDay, 0})
	errs["a quantity below 0"] = l.WaitN(ctx, "key", fifteenPerDay, -1)
	_, errs["PeekAll of no slots"] = l.PeekAll(ctx, limiter.Slots{TTL: time.Second}.At("key"))
	for name, err := range errs {
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.NotErrorIs(t, err, limiter.ErrUnavailable, name)
	}
	_, err := l.Allow(ctx, "key", limiter.Limit{Count: 1, Period: time.Second})
	require.ErrorIs(t, err, gcra.ErrCapacity, "the error of package gcra is inside")
	long := limiter.Request{"long", limiter.Every(250 * 365 * 24 * time.Hour), 1}
	open := limiter.New(unreachable(t), limiter.OnFailure(limiter.FailOpen))
	for _, l := range []*limiter.Limiter{limiter.NewLocal(), open} {
		_, err = l.AllowAll(ctx, limiter.Request{"key", fifteenPerDay, 1}, long)
		require.ErrorContains(t, err, `key "long": `)
	}
}

// Each method returns ErrUnavailable if Redis does not decide and no other policy is set.
func TestErrUnavailable(t *testing.T) {
	t.Parallel()
	l := limiter.New(unreachable(t))
	errs := calls(t.Context(), l, fifteenPerDay, 1, twoFor3s)
	errs["Reset"] = l.Reset(t.Context(), "key")
	for name, err := range errs {
		require.ErrorIs(t, err, limiter.ErrUnavailable, name)
		require.NotErrorIs(t, err, limiter.ErrInvalid, name)
	}
}

// A key is for one kind of row, in this process as in Redis.
func TestKeyOfAnotherKind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	takes := map[string]func(l *limiter.Limiter, key string) error{
		"funnel": func(l *limiter.Limiter, key string) error { return l.Wait(ctx, key, fifteenPerDay) },
		"quota":  func(l *limiter.Limiter, key string) error { return l.Wait(ctx, key, limiter.Daily(9, time.UTC)) },
		"slots":  func(l *limiter.Limiter, key string) error { _, err := l.TryAcquire(ctx, twoFor3s.At(key)); return err },
	}
	redis := limiter.New(servertest.StartModule(t).Client(t), limiter.WithTimeout(servertest.Patience))
	for name, l := range map[string]*limiter.Limiter{"Redis": redis, "this process": limiter.NewLocal()} {
		for first, take := range takes {
			require.NoError(t, take(l, "key"), "%s: %s", name, first)
			for second, take := range takes {
				err := take(l, "key")
				require.Equal(t, second != first, errors.Is(err, limiter.ErrInvalid),
					"%s: %s after %s: %v", name, second, first, err)
			}
			require.NoError(t, l.Reset(ctx, "key"))
		}
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
	for _, none := range []*limiter.Acquisition{nil, {}} {
		require.True(t, none.Limited())
		require.Zero(t, none.RetryAfter())
		require.Error(t, none.Context().Err())
		require.NoError(t, none.Release(t.Context()))
		none.ReleaseSoon(t.Context())
	}
	require.Greater(t, limiter.NoRetry, 100*365*24*time.Hour)
	never := limiter.Results{{OK: true}, {RetryAfter: time.Second}, {RetryAfter: limiter.NoRetry}}
	require.Equal(t, limiter.NoRetry, never.RetryAfter())
	require.Equal(t, time.Second, never[:2].RetryAfter())
	require.Zero(t, never[:1].RetryAfter(), "allowed")
}
