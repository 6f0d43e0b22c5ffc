package model_test

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestCallsAreLinearizable while clients set the clock.
func TestCallsAreLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	history := newHistory()
	history.record(0, startOfTime(), onServer(server.Client(t), 0))
	history.work(servertest.QuickOrLong(400, 4000), onFunnelsAndClock, func() func(operation) result {
		return onServer(server.Client(t), 0)
	})
	_, _, unknown := history.count()
	require.Zero(t, unknown)
	history.requireLinearizable(t)
}

// TestCallsThatReadOutsideAreNotLinearizable: the check would see it if calls were not
// atomic. One after the other they are right even so; at once they are not.
func TestCallsThatReadOutsideAreNotLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	const operations = 100
	for atOnce, want := range map[bool]porcupine.CheckResult{false: porcupine.Ok, true: porcupine.Illegal} {
		history := newHistory()
		require.NoError(t, server.Client(t).FlushAll(context.Background()).Err())
		history.record(0, startOfTime(), func(operation) result { return result{} })
		if atOnce {
			history.work(operations, onFunnels, func() func(operation) result { return readOutside(server.Client(t)) })
		} else {
			for range clients * operations {
				history.record(0, onFunnels(), readOutside(server.Client(t)))
			}
		}
		_, _, unknown := history.count()
		require.Zero(t, unknown)
		require.Equal(t, want, history.check(), "at once: %t", atOnce)
	}
}

// readOutside executes operations as a limiter must not: it reads the funnel in one
// command, decides in the client, and writes in another command.
func readOutside(client *redis.Client) func(operation) result {
	return func(operation operation) result {
		ctx := context.Background()
		tat, err := client.Get(ctx, operation.funnel.key).Int64()
		if servertest.IgnoreNil(err) != nil {
			return result{unknown: true}
		}
		after, result := operation.in(world{now: startOfTime().instant, tat: tat})
		if after.tat != tat && client.Set(ctx, operation.funnel.key, after.tat, 0).Err() != nil {
			result.unknown = true
		}
		return result
	}
}
