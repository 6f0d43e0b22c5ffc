// A Limiter without Redis decides as one with it, by the clock of the process. Options that make
// no sense panic.

package limiter_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

func TestNewLocal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, second := context.Background(), limiter.Every(time.Second)
		l := limiter.NewLocal(limiter.WithPrefix("p:"), limiter.OnFailure(limiter.FailClosed))
		testQuantities(t, limiter.PathLocal, limiter.NewLocal)

		start := time.Now()
		for range 3 {
			require.NoError(t, l.Wait(ctx, "waiting", second))
		}
		require.Equal(t, 2*time.Second, time.Since(start))
		_, err := l.WaitAll(ctx, limiter.Request{"waiting", second, 1}, limiter.Request{"b", perDay(1), 1})
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))

		require.True(t, allow(t, l, "b", perDay(1)).Limited())
		require.NoError(t, l.Reset(ctx, "b"))
		require.False(t, allow(t, l, "b", perDay(1)).Limited())

		canceled, cancel := context.WithCancel(ctx)
		cancel()
		result, err := l.Allow(canceled, "c", perDay(1))
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, result.Limited())
		require.ErrorIs(t, l.Reset(canceled, "c"), context.Canceled)

		// No policy applies where there is no Redis that could fail.
		result, err = l.Charge(ctx, "d", limiter.Every(math.MaxInt64), 1) // until after the year 2262
		require.ErrorIs(t, err, gcra.ErrTAT)
		require.ErrorContains(t, err, `limiter: key "p:d": `)
		require.True(t, result.Limited())
	})
}

func TestNewPanics(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	const policies = "OnFailure needs one of the constants, not "
	for want, make := range map[string]func(){
		"New needs a client of Redis, not nil":                 func() { limiter.New(nil) },
		"New needs a client of Redis, not nil ":                func() { limiter.New((*redis.Client)(nil)) },
		"WithLogger needs a logger, not nil":                   func() { limiter.New(rdb, limiter.WithLogger(nil)) },
		"WithHook needs a hook, not nil":                       func() { limiter.New(rdb, limiter.WithHook(nil)) },
		policies + "FailurePolicy(17)":                         func() { limiter.New(rdb, limiter.OnFailure(17)) },
		policies + "FailurePolicy(-1)":                         func() { limiter.NewLocal(limiter.OnFailure(-1)) },
		`WithPath needs PathModule or PathScript, not "local"`: func() { limiter.NewLocal(limiter.WithPath("local")) },
	} {
		require.PanicsWithValue(t, "limiter: "+strings.TrimSpace(want), make)
	}
}
