package model_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// TestCallsAreLinearizable while clients set the clock.
func TestCallsAreLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	history := newHistory()
	history.record(0, setClock(servertest.Epoch), onServer(server.Client(t)))
	history.work(servertest.QuickOrLong(400, 4000), onFunnelsAndClock, func() func(operation) result {
		return onServer(server.Client(t))
	})
	history.requireNoFailure(t)
	history.requireLinearizable(t)
}

// Callers of two processes who share calls, and give tokens back, on a funnel that leaks nothing,
// have had their turn in some order. A process that limits without Redis, and so does not notice
// what is given back, forgets what it knows.
func TestSharedCallsAreLinearizable(t *testing.T) {
	limit := limiter.Every(time.Hour).Burst(3)
	tokens := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(before, _, output any) (bool, any) {
			level := before.(int)
			switch output.(result).reply {
			case "taken":
				return level < limit.Capacity, level + 1
			case "given back":
				return true, level - 1
			case "limited":
				return level == limit.Capacity, level
			}
			return true, level
		},
	}
	for _, module := range []string{servertest.Module(t), ""} {
		client, history := servertest.Start(t, servertest.Options{Module: module}).Client(t), newHistory()
		var shared, next atomic.Int64
		l := limiter.New(client, limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Command == "take" {
				shared.Add(int64(event.Result.Quantity - 1))
			}
		}))
		processes := [2]atomic.Pointer[lease.Leases]{}
		history.work(servertest.QuickOrLong(400, 4000), func() operation {
			return operation{words: []string{[]string{"take", "take", "give back"}[rand.IntN(3)]}}
		}, func() func(operation) result {
			process := &processes[next.Add(1)%2]
			process.CompareAndSwap(nil, lease.New(l, 0))
			var held []limiter.Result
			return func(operation operation) result {
				if last := len(held) - 1; operation.words[0] == "give back" && last >= 0 {
					_, err := l.Settle(context.Background(), &held[last], 0)
					held = held[:last]
					return result{reply: "given back", failed: err != nil}
				}
				got, err := process.Load().Allow(context.Background(), "key", limit)
				reply := "limited"
				switch {
				case got.Allowed > 0:
					reply, held = "taken", append(held, got)
				case got.Path == limiter.PathLease:
					reply = "limited without Redis"
					process.Store(lease.New(l, 0))
				}
				return result{reply: reply, failed: err != nil}
			}
		})
		history.requireNoFailure(t)
		require.Positive(t, shared.Load())
		require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(tokens, history.operations, servertest.Patience))
	}
}
