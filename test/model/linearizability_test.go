package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
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

// Callers of two processes who share calls, and refunds, on a funnel that leaks nothing, have
// had their turn in some order.
func TestSharedCallsAreLinearizable(t *testing.T) {
	limit := limiter.Every(time.Hour).Burst(3)
	taken := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(before, input, output any) (bool, any) {
			if input.(operation).words[0] == "refund" {
				return true, max(0, before.(int)-1)
			}
			after := min(limit.Capacity, before.(int)+1)
			return output.(result).reply == fmt.Sprint(after-before.(int)), after
		},
	}
	for _, module := range []string{servertest.Module(t), ""} {
		client, history := servertest.Start(t, servertest.Options{Module: module}).Client(t), newHistory()
		var shared, next atomic.Int64
		hook := limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Command == "lease" {
				shared.Add(int64(event.Result.Quantity - 1))
			}
		})
		processes := [2]*limiter.Limiter{limiter.New(client, limiter.WithLease(0), hook), limiter.New(client, limiter.WithLease(0), hook)}
		history.work(servertest.QuickOrLong(400, 4000), func() operation {
			return operation{words: []string{[]string{"allow", "allow", "refund"}[rand.IntN(3)]}}
		}, func() func(operation) result {
			l := processes[next.Add(1)%2]
			return func(operation operation) result {
				ask := map[string]func(context.Context, string, limiter.Limit, int) (limiter.Result, error){"allow": l.AllowN, "refund": l.Refund}
				got, err := ask[operation.words[0]](context.Background(), "key", limit, 1)
				return result{reply: fmt.Sprint(got.Allowed), unknown: err != nil}
			}
		})
		require.Zero(t, history.outcomes()["unknown"])
		require.Positive(t, shared.Load())
		require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(taken, history.operations, servertest.Patience))
	}
}
