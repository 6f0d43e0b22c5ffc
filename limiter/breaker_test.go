package limiter_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A call to a server that hangs takes no longer than the timeout, whether or not the client
// heeds it. After three of them calls fail at once, but for one in a second, until the
// server answers. No goroutine is left behind.
func TestServerThatHangs(t *testing.T) {
	for _, heeds := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", heeds), func(t *testing.T) {
			ctx, server, now := context.Background(), servertest.StartModule(t), time.Now()
			before := runtime.NumGoroutine()
			client := server.NewClient(once, func(options *redis.Options) { options.ContextTimeoutEnabled = heeds })
			counted := &counting{Client: client}
			start := func(options ...limiter.Option) *limiter.Limiter {
				l := limiter.New(counted, options...)
				limiter.SetNow(l, func() time.Time { return now })
				return l
			}
			l := start(limiter.WithTimeout(50 * time.Millisecond))
			many := start(limiter.WithTimeout(50*time.Millisecond), limiter.OnFailure(limiter.FailLocal))
			patient := start()
			servertest.Eventually(t, "Redis decides in time", func() bool {
				now = now.Add(time.Second)
				_, err := l.Allow(ctx, "key", fifteenPerDay)
				return err == nil
			})
			ask := func() error { _, err := l.Allow(ctx, "key", fifteenPerDay); return err }
			askMany := func() error {
				results, err := many.AllowMany(ctx, limiter.Request{"a", fifteenPerDay, 1}, limiter.Request{"b", fifteenPerDay, 1})
				require.Equal(t, limiter.PathLocal, results[1].Path)
				return err
			}
			sends := func(want int, ask func() error) (err error) {
				t.Helper()
				before := counted.trips.Load()
				for range 5 {
					err = ask()
				}
				require.EqualValues(t, want, counted.trips.Load()-before)
				return err
			}

			require.NoError(t, server.Signal(syscall.SIGSTOP))
			t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
			const timeout = "limiter: no answer from Redis within 50ms: context deadline exceeded"
			_ = sends(0, func() error { _, err := l.Allow(ctx, "key", limiter.Limit{}); return err }) // not failures of Redis
			require.EqualError(t, sends(3, ask), timeout)
			require.EqualError(t, sends(0, ask), timeout)
			require.NoError(t, sends(3, askMany))
			require.NoError(t, sends(0, askMany))
			require.EqualError(t, l.Reset(ctx, "key"), timeout)
			for range 2 {
				for _, calls := range []int{0, 1} {
					now = now.Add(500 * time.Millisecond)
					require.EqualError(t, sends(calls, ask), timeout)
					require.NoError(t, sends(calls, askMany))
				}
			}

			// Also of those who call at once, while the one that tries waits.
			now = now.Add(time.Second)
			trips := counted.trips.Load()
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() { _ = ask() })
			}
			callers.Wait()
			require.EqualValues(t, 1, counted.trips.Load()-trips)

			// A caller whose own context is done gets its error, and tells nothing of Redis.
			sends(5, func() error {
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				_, err := patient.Allow(short, "key", fifteenPerDay)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return err
			})

			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "Redis decides again", func() bool {
				now = now.Add(time.Second)
				return ask() == nil
			})
			_ = sends(5, ask)
			require.NoError(t, client.Close())
			servertest.Await(t, time.Millisecond, "no goroutine is left", func() error {
				if now := runtime.NumGoroutine(); now > before {
					return fmt.Errorf("%d more", now-before)
				}
				return nil
			})
		})
	}
}
