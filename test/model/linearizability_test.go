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
	require.Zero(t, history.outcomes()["unknown"])
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
		require.Zero(t, history.outcomes()["unknown"])
		require.Equal(t, want, history.check(), "at once: %t", atOnce)
	}
}

// readOutside executes operations as a limiter must not: it reads the funnels in one
// command, decides in the client, and writes in another command.
func readOutside(client *redis.Client) func(operation) result {
	return func(operation operation) result {
		ctx := context.Background()
		keys := []string{operation.group[0].key, operation.group[1].key}
		values, err := client.MGet(ctx, keys...).Result()
		if err != nil {
			return result{unknown: true}
		}
		before := world{now: servertest.Epoch.UnixNano()}
		for i, value := range values {
			before.values[i], _ = value.(string)
		}
		after, result := operation.in(before)
		for i, key := range keys {
			var err error
			switch value := after.values[i]; {
			case value == before.values[i]:
			case value == "":
				err = client.Del(ctx, key).Err()
			default:
				err = client.Set(ctx, key, value, 0).Err()
			}
			result.unknown = result.unknown || err != nil
		}
		return result
	}
}
