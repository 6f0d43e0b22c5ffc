// A server that hangs costs a few callers their time-out. Then calls fail at once, but for one in a
// second, until an answer comes: late ones count. Callers who give up tell nothing of Redis, and do
// not keep others from it. No goroutine is left behind.

package limiter_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
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

func TestServerThatHangs(t *testing.T) {
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			ctx, server, goroutines := context.Background(), servertest.StartModule(t), runtime.NumGoroutine()
			client := &counting{Client: server.NewClient(once, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.ReadTimeout = honors, servertest.Patience
			})}
			l, patient := limiter.New(client, limiter.WithTimeout(50*time.Millisecond)), limiter.New(client)
			clock := startClock(l, patient)
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
			for range 5 { // which are no failures of Redis
				_, err := l.Allow(ctx, "key", limiter.Limit{})
				require.Error(t, err)
			}
			fiveCallsSend(3)
			fiveCallsSend(0)
			require.EqualError(t, l.Reset(ctx, "key"), timeout)
			for range 2 {
				clock.advance(500 * time.Millisecond)
				fiveCallsSend(0)
				clock.advance(500 * time.Millisecond)
				fiveCallsSend(1)
			}

			// Also of those who call at once, while the one that tries waits.
			clock.advance(time.Second)
			before := client.trips.Load()
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() { _ = ask() })
			}
			callers.Wait()
			require.EqualValues(t, 1, client.trips.Load()-before)

			// Those whose own contexts are done open no breaker.
			before = client.trips.Load()
			for range 5 {
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				_, err := patient.Allow(short, "key", fifteenPerDay)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			require.EqualValues(t, 5, client.trips.Load()-before)

			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "Redis decides again", func() bool {
				if honors { // and no answer comes late
					clock.advance(time.Second)
				}
				return ask() == nil
			})
			require.NoError(t, client.Close())
			servertest.Await(t, time.Millisecond, "no goroutine is left", func() error {
				if now := runtime.NumGoroutine(); now > goroutines {
					return fmt.Errorf("%d more", now-goroutines)
				}
				return nil
			})
		})
	}
}

// A second after the breaker opened a call tries, also where calls that were under way then end later.
func TestCallsUnderWayWhenTheBreakerOpens(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := &counting{Client: server.Client(t, once)}
	l := limiter.New(client, limiter.WithTimeout(time.Second))
	clock := startClock(l)
	ask := func() { _, _ = l.Allow(t.Context(), "key", fifteenPerDay) }
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	var early, late sync.WaitGroup
	for range 3 {
		early.Go(ask)
	}
	servertest.Eventually(t, "three are under way", func() bool { return client.trips.Load() == 3 })
	time.Sleep(500 * time.Millisecond)
	late.Go(ask)
	early.Wait()
	require.EqualValues(t, 4, client.trips.Load())
	clock.advance(900 * time.Millisecond)
	late.Wait()
	ask()
	require.EqualValues(t, 4, client.trips.Load())
	clock.advance(100 * time.Millisecond)
	ask()
	require.EqualValues(t, 5, client.trips.Load())
}

// After an outage the first caller that stays is decided by Redis, whenever those before it gave up.
func TestCallersWhoGiveUpAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, honors := range []bool{false, true} {
		for _, when := range []string{"before the call", "before it is sent", "before the answer"} {
			t.Run(fmt.Sprintf("%s, ContextTimeoutEnabled %v", when, honors), func(t *testing.T) {
				server, giveUp := servertest.StartModule(t), func() {}
				client := server.Client(t, once, func(options *redis.Options) {
					options.ContextTimeoutEnabled = honors
					options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
						return &sendingConn{conn, func() {
							if when == "before the answer" {
								giveUp()
							}
						}}, err
					}
				})
				l := limiter.New(&counting{Client: client, before: func() {
					if when == "before it is sent" {
						giveUp()
					}
				}})
				clock := startClock(l)
				server.Kill()
				for range 4 {
					_, err := l.Allow(t.Context(), "key", fifteenPerDay)
					require.ErrorIs(t, err, syscall.ECONNREFUSED)
				}
				server.Restart(t)
				clock.advance(time.Second)
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					if giveUp = cancel; when == "before the call" {
						cancel()
					}
					_, _ = l.Allow(ctx, "key", fifteenPerDay)
					cancel()
				}
				giveUp = func() {}
				servertest.Eventually(t, "Redis decides", func() bool {
					_, err := l.Allow(t.Context(), "key", fifteenPerDay)
					return err == nil
				})
			})
		}
	}
}

// A sendingConn calls a function when it has sent CL.RESERVE.
type sendingConn struct {
	net.Conn
	sent func()
}

func (c *sendingConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	if bytes.Contains(data, []byte("cl.reserve")) {
		c.sent()
	}
	return n, err
}
