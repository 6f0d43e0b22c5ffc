// A server that hangs costs a few callers their time-out. Then calls fail at once, but for one in a
// second, until an answer comes: late ones count. Callers who give up tell nothing of Redis, and do
// not keep others from it. No goroutine is left behind: synctest fails where one is.

package limiter_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestServerThatHangs(t *testing.T) {
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			ctx, server := context.Background(), servertest.StartModule(t)
			client := &counting{Client: server.Client(t, once, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.ReadTimeout = honors, servertest.Patience
			})}
			l := limiter.New(client, limiter.WithTimeout(50*time.Millisecond))
			clock := startClock(l)
			ask := func() error { _, err := l.Allow(ctx, "key", fifteenPerDay); return err }
			servertest.Eventually(t, "Redis decides in time", func() bool {
				clock.advance(time.Second)
				return ask() == nil
			})
			const timeout = "limiter: no answer from Redis within 50ms: context deadline exceeded"
			fiveCallsSend := func(want int64) {
				t.Helper()
				before := client.trips.Load()
				for range 5 {
					require.EqualError(t, ask(), timeout)
				}
				require.Equal(t, want, client.trips.Load()-before)
			}

			require.NoError(t, server.Signal(syscall.SIGSTOP))
			t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
			fiveCallsSend(3)
			fiveCallsSend(0)
			before := client.trips.Load()
			require.EqualError(t, l.Reset(ctx, "key"), timeout)
			require.EqualValues(t, 1, client.trips.Load()-before, "Reset asks in any case")
			for _, want := range []int64{0, 1, 0, 1} {
				clock.advance(500 * time.Millisecond)
				fiveCallsSend(want)
			}

			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "Redis decides again", func() bool {
				if honors { // and no answer comes late
					clock.advance(time.Second)
				}
				return ask() == nil
			})
		})
	}
}

// Callers who give up open no breaker. A second after it opened one call of many tries, also where
// calls that were under way then end later.
func TestCallsUnderWayWhenTheBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trips atomic.Int64
		l := limiter.New(clientFunc(func(ctx context.Context, _ redis.Cmder) error {
			trips.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}), limiter.WithTimeout(time.Second))
		askUntil := func(timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, _ = l.Allow(ctx, "key", fifteenPerDay)
		}
		for range 5 {
			askUntil(20 * time.Millisecond)
		}
		require.EqualValues(t, 5, trips.Swap(0))

		for range 3 {
			go askUntil(time.Hour)
		}
		time.Sleep(500 * time.Millisecond)
		go askUntil(time.Hour)
		time.Sleep(1400 * time.Millisecond) // the last of these ended 400 ms ago
		askUntil(time.Hour)
		require.EqualValues(t, 4, trips.Swap(0))
		time.Sleep(100 * time.Millisecond)
		for range 16 {
			go askUntil(time.Hour)
		}
		synctest.Wait()
		require.EqualValues(t, 1, trips.Load())
		time.Sleep(time.Second)
	})
}

// After an outage the first caller that stays is decided by Redis, whenever those before it gave up.
func TestCallersWhoGiveUpAfterAnOutage(t *testing.T) {
	for _, honors := range []bool{false, true} {
		for _, when := range []string{"before the call", "before it is sent", "before the answer"} {
			t.Run(fmt.Sprintf("%s, ContextTimeoutEnabled %v", when, honors), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testCallersWhoGiveUp(t, when, honors) })
			})
		}
	}
}

func testCallersWhoGiveUp(t *testing.T, when string, honors bool) {
	isUp, giveUp := false, func() {}
	reach := func(moment string) {
		if moment == when {
			giveUp()
		}
	}
	l := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error { // as go-redis does
		if !isUp {
			return syscall.ECONNREFUSED
		}
		if reach("before it is sent"); ctx.Err() != nil {
			return ctx.Err()
		}
		if reach("before the answer"); ctx.Err() != nil && honors {
			return ctx.Err()
		}
		command.(*redis.Cmd).SetVal(allows)
		return nil
	}))
	for range 4 {
		_, err := l.Allow(t.Context(), "key", fifteenPerDay)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	isUp = true
	time.Sleep(time.Second)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		giveUp = cancel
		reach("before the call")
		_, _ = l.Allow(ctx, "key", fifteenPerDay)
		synctest.Wait()
		cancel()
	}
	giveUp = func() {}
	allow(t, l, "key", fifteenPerDay)
}
