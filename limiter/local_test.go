package limiter_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

// A Limiter without Redis decides as one with it, by the clock of the process.
func TestNewLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var told recorder
		l := limiter.NewLocal(limiter.WithPrefix("p:"), limiter.WithHook(told.hook))
		testQuantitiesOf(t, limiter.PathLocal, func(string) *limiter.Limiter { return l })
		require.Equal(t, "p:new", told.last().Key)
		require.NoError(t, told.last().Cause)

		start := time.Now()
		for range 3 {
			require.NoError(t, l.Wait(ctx, "waiting", limiter.Every(time.Second)))
		}
		require.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, l.WaitAll(ctx, limiter.Request{"waiting", limiter.Every(time.Second), 1}, limiter.Request{"b", perDay(1), 1}))
		require.Equal(t, 3*time.Second, time.Since(start))
		_, err := l.AllowMany(ctx, limiter.Request{"c", perDay(1), 1}, limiter.Request{"c", limiter.Limit{}, 1})
		require.ErrorIs(t, err, gcra.ErrCount)
		require.True(t, allow(t, l, "c", perDay(1)).Limited())
		_, _, err = l.AllowAll(ctx, limiter.Request{"d", perDay(1), 1}, limiter.Request{"d", perDay(1), 1})
		require.ErrorContains(t, err, `limiter: key "p:d" is named twice`)
		require.NoError(t, l.Reset(ctx, "c"))
		require.False(t, allow(t, l, "c", perDay(1)).Limited())

		canceled, cancel := context.WithCancel(ctx)
		cancel()
		result, err := l.Allow(canceled, "e", perDay(1))
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, result.Limited())
	})
}

// What Limited makes of the fields, which other packages can set.
func TestResultsCanBeMade(t *testing.T) {
	limit := limiter.PerSecond(10)
	for _, c := range []struct {
		result  limiter.Result
		limited bool
	}{
		{limiter.Result{}, true},
		{limiter.Result{Allowed: 1}, false},
		{limiter.Result{Limit: limit, Quantity: 3, RetryAfter: time.Second}, true},
		{limiter.Result{Limit: limit, Quantity: 11, RetryAfter: limiter.NoRetry}, true},
		{limiter.Result{Limit: limit, Quantity: 11, Allowed: 4, RetryAfter: limiter.NoRetry}, false},
		{limiter.Result{Limit: limit, Quantity: 20, Allowed: 20, RetryAfter: time.Second}, false}, // a charge
		{limiter.Result{Limit: limit, Quantity: 1, RetryAfter: limiter.NoRetry}, false},           // a peek
		{limiter.Result{Limit: limit, RetryAfter: limiter.NoRetry}, false},
	} {
		require.Equal(t, c.limited, c.result.Limited(), "%+v", c.result)
	}
}

func TestNewPanics(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for want, make := range map[string]func(){
		"limiter: New needs a client of Redis, not nil":                      func() { limiter.New(nil) },
		"limiter: New needs a client of Redis, not nil ":                     func() { limiter.New((*redis.Client)(nil)) },
		"limiter: OnFailure needs one of the constants, not Failure(17)":     func() { limiter.New(rdb, limiter.OnFailure(17)) },
		"limiter: OnFailure needs one of the constants, not Failure(-1)":     func() { limiter.NewLocal(limiter.OnFailure(-1)) },
		"limiter: only one of WithModuleOnly and WithScriptOnly is possible": func() { limiter.New(rdb, limiter.WithModuleOnly(), limiter.WithScriptOnly()) },
		"limiter: WithLogger needs a logger, not nil":                        func() { limiter.New(rdb, limiter.WithLogger((*slog.Logger)(nil))) },
		"limiter: WithHook needs a hook, not nil":                            func() { limiter.New(rdb, limiter.WithHook(nil)) },
	} {
		require.PanicsWithValue(t, strings.TrimSpace(want), make)
	}
}
