package limiter_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A key that one caller asks about less than once in d sends what it sends without leases.
func TestLeasesOfRareKeys(t *testing.T) {
	server := servertest.StartModule(t)
	sends := func(options ...limiter.Option) (all [][]string) {
		require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
		address, sent := servertest.HideCommands(t, server.Addr())
		client, now := server.Client(t, func(options *redis.Options) { options.Addr = address }), time.Now()
		l := limiter.New(client, options...)
		limiter.SetNow(l, func() time.Time { return now })
		for _, quantity := range []int{1, 10, 1, 2, 0, 11, 10, 3, 80, 10, 1} { // the last are limited
			_, err := l.AllowN(t.Context(), "key", limiter.PerSecond(10).Burst(100), quantity)
			require.NoError(t, err)
			now = now.Add(1001 * time.Millisecond)
		}
		for _, words := range sent() {
			if strings.HasPrefix(words[0], "cl.") {
				all = append(all, words)
			}
		}
		return all
	}
	require.Equal(t, sends(), sends(limiter.WithLease(time.Second)))
}

// Leases keep the bound, by module and by script. For a d of 0, test/model has the order of calls.
func TestLeasesOnServers(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		const span = 20 * time.Millisecond
		var allowed, byLease atomic.Int64
		l := limiter.New(client, limiter.WithLease(span), limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Result.Path == limiter.PathLease {
				byLease.Add(int64(event.Result.Allowed))
			}
		}))
		var callers sync.WaitGroup
		begin := time.Now()
		for range 8 {
			callers.Go(func() {
				for range 50 {
					result, err := l.Allow(context.Background(), "ahead", limiter.PerSecond(1000).Burst(100))
					if err != nil {
						t.Error(err)
					}
					allowed.Add(int64(result.Allowed))
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, allowed.Load(), 101+int64((time.Since(begin)+span)/time.Millisecond))
		require.Positive(t, byLease.Load())
	})
}

// Where there is no CL.TAKE, or no permission for it, calls are sent as without leases. This is
// logged once.
func TestLeasesWithoutTake(t *testing.T) {
	limit, server := perDay(100), servertest.StartModule(t)
	hidden, sent := servertest.HideCommands(t, server.Addr(), "cl.reserve", "cl.take", "cl.peek", "cl.charge", "cl.refund")
	for name, client := range map[string]*redis.Client{
		"cell":   server.Client(t, func(options *redis.Options) { options.Addr = hidden }),
		"denied": as(t, server, "~*", "+@all", "-cl.take"),
	} {
		var log bytes.Buffer
		l := limiter.New(client, limiter.WithLease(time.Hour), limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		allowed := 0
		for range 110 {
			allowed += allow(t, l, name, limit).Allowed
		}
		require.Equal(t, 100, allowed, name)
		require.Equal(t, 1, strings.Count(log.String(), "leases are not used: they need CL.TAKE"), log.String())
		require.Equal(t, limiter.PathModule, allow(t, l, "more", limit).Path, name)
	}
	for _, words := range sent() {
		require.NotContains(t, strings.Join(words, " "), "evalsha", "CL.THROTTLE decides")
	}
}
