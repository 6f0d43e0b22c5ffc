// If Redis loses answers, stands still or is dead, each slot that nobody holds is free again a
// tenth of the TTL after Redis answers again.

package limiter_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// Go-redis repeats a command whose answer was lost: the second copy finds the slot of the first.
func TestSlotOfALostAnswer(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, direct *redis.Client, source limiter.Source) {
		ctx, lossy := t.Context(), lossyFor(t, direct)
		tokens := limiter.Request{Key: "tokens", Limit: fifteenPerDay, Quantity: 10}
		got := tryAcquire(t, limiter.New(lossy(func(*redis.Options) {}), limiter.WithSource(source)), "slots", twoFor1h,
			tokens)
		require.EqualValues(t, 1, direct.ZCard(ctx, "slots").Val(), "one slot for two copies")
		require.False(t, got.Limited())
		require.Equal(t, limiter.Result{Key: "tokens", Limit: fifteenPerDay, Quantity: 10, OK: true, Allowed: 10,
			Remaining:  5,
			ResetAfter: got.Results[1].ResetAfter, Source: source}, got.Results[1], "the second copy was limited by its tokens")
		require.NoError(t, got.Release(ctx))
		require.Zero(t, direct.Exists(ctx, "slots").Val())
	})
}

// lossyFor returns clients for the server of a client, which lose the answer to the first command
// on slots.
func lossyFor(t *testing.T, direct *redis.Client) func(change func(*redis.Options)) *redis.Client {
	addr, db := direct.Options().Addr, direct.Options().DB
	require.NoError(t, direct.ScriptLoad(t.Context(), limiter.Script()).Err()) // whose text has the word
	return func(change func(*redis.Options)) *redis.Client {
		options := &redis.Options{Addr: servertest.LoseAnswer(t, addr, "slots"), DB: db}
		change(options)
		client := redis.NewClient(options)
		t.Cleanup(func() { client.Close() })
		return client
	}
}

// Without retries the slot is given back, whatever the policy decides.
func TestSlotOfALostAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, direct *redis.Client, source limiter.Source) {
		ctx, lossy := t.Context(), lossyFor(t, direct)
		for _, policy := range []limiter.FailurePolicy{limiter.FailWithError, limiter.FailOpen} {
			var recorded recorder
			tokens := limiter.Request{Key: policy.String(), Limit: fifteenPerDay, Quantity: 10}
			l := limiter.New(lossy(withoutRetries), limiter.WithSource(source), limiter.OnFailure(policy),
				limiter.WithHook(recorded.hook))
			got, err := l.TryAcquire(ctx, twoFor1h.At("slots"), tokens)
			require.Equal(t, policy == limiter.FailOpen, err == nil && !got.Limited(), policy)
			require.EqualValues(t, 1, direct.Exists(ctx, tokens.Key).Val(), "%v: it was executed", policy)
			isRefund := func(event limiter.Event) bool { return event.Command == "refund" } // maybe told before the others
			servertest.Eventually(t, "the slot is given back", func() bool {
				return slices.ContainsFunc(recorded.all(), isRefund)
			})
			require.Zero(t, direct.Exists(ctx, "slots").Val(), policy)
			if !got.Limited() {
				require.NoError(t, got.Release(ctx))
				require.Len(t, recorded.all(), 3, "nobody counts it")
			}
		}
	})
}

func TestSlotsOfADeadServer(t *testing.T) {
	t.Parallel()
	for policy, want := range map[limiter.FailurePolicy][3]bool{
		limiter.FailOpen: {true, true, true}, limiter.FailClosed: {}, limiter.FailLocal: {true, true, false},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), servertest.StartModule(t)
			// After PoolSize failed dials, go-redis returns the latest error for up to a second,
			// without dialling.
			l := limiter.New(server.Client(t, withoutRetries, func(options *redis.Options) { options.PoolSize = 1000 }),
				limiter.OnFailure(policy), limiter.WithTimeout(servertest.Patience))
			counted := requireSlot(t, l, "lost", limiter.Slots{Max: 1, TTL: 500 * time.Millisecond})
			server.Kill()
			// A stall of the machine must not end them. They are asked back each tenth of their TTL.
			slots := limiter.Slots{Max: 2, TTL: 15 * time.Second}
			taken := [3]*limiter.Acquisition{}
			for i := range taken {
				got := tryAcquire(t, l, "key", slots)
				require.Equal(t, want[i], !got.Limited(), "attempt %d", i)
				require.Equal(t, limiter.Source(policy.String()), got.Results[0].Source, "attempt %d", i)
				if policy == limiter.FailClosed {
					require.Equal(t, time.Second, got.RetryAfter(), "attempt %d", i)
				}
				taken[i] = got
			}
			<-counted.Context().Done()
			require.Equal(t, limiter.ErrSlotLost, context.Cause(counted.Context()))
			require.ErrorIs(t, counted.Release(ctx), limiter.ErrSlotLost)
			server.Restart(t)
			patient, cancel := context.WithTimeout(ctx, servertest.Patience)
			defer cancel()
			_, err := l.Drain(patient)
			require.NoError(t, err, "the lost slot is given back, even while other calls do not ask")
			for i, slot := range taken {
				if !slot.Limited() {
					require.NoError(t, slot.Context().Err(), "attempt %d", i)
					require.NoError(t, slot.Release(ctx), "attempt %d", i)
				}
			}
		})
	}
}

// Calls that lie in the socket of a server that stands still are executed after their callers have
// gone. With ContextTimeoutEnabled their connections are closed, and the first call that gives a
// slot back ends before a new connection is ready.
func TestAStallStrandsNoSlots(t *testing.T) {
	t.Parallel()
	for _, stall := range []time.Duration{150 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(stall.String(), func(t *testing.T) {
			t.Parallel()
			const callers = 20
			ctx, server := t.Context(), servertest.StartModule(t)
			client := server.Client(t, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.PoolSize, options.MinIdleConns = true, 40, callers
			})
			l := limiter.New(client, limiter.WithTimeout(50*time.Millisecond))
			slots := limiter.Slots{Max: 100, TTL: 5 * time.Second}
			for round := range 3 {
				servertest.Eventually(t, "each caller has a connection", func() bool {
					return client.Ping(ctx).Err() == nil && client.PoolStats().IdleConns >= callers
				})
				var group sync.WaitGroup
				require.NoError(t, server.Signal(syscall.SIGSTOP))
				time.AfterFunc(stall, func() { _ = server.Signal(syscall.SIGCONT) })
				for range callers {
					group.Go(func() {
						got, err := l.TryAcquire(ctx, slots.At(fmt.Sprint("key", round)))
						if err == nil {
							_ = got.Release(ctx)
						}
					})
				}
				group.Wait()
				time.Sleep(stall)
				require.NoError(t, server.Signal(syscall.SIGCONT))
			}
			began := time.Now()
			servertest.Eventually(t, "all slots are given back", func() bool {
				return client.Exists(ctx, "key0", "key1", "key2").Val() == 0
			})
			require.Less(t, time.Since(began), slots.TTL/2, "before their TTL is over")
		})
	}
}
