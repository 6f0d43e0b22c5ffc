// What goes back to Redis is sent again if this process could not send it, and never if it may have
// been sent.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// Tokens and slots that a full pool keeps from going back do so once a connection is free.
func TestFullPoolDelaysWhatGoesBack(t *testing.T) {
	t.Parallel()
	client := servertest.StartModule(t).Client(t, func(options *redis.Options) {
		options.ContextTimeoutEnabled, options.PoolSize = true, 1
	})
	var unsent atomic.Int64
	patient := limiter.New(client, limiter.WithTimeout(servertest.Patience))
	l := limiter.New(client, limiter.WithTimeout(500*time.Millisecond), limiter.WithHook(func(_ context.Context, e limiter.Event) {
		if e.Err != nil && strings.Contains(e.Err.Error(), "no connection was free in time, of 1 in the pool") {
			unsent.Add(1)
		}
	}))
	taken, err := patient.AllowN(t.Context(), "key", fifteenPerDay, 10)
	require.NoError(t, err)
	held, err := l.TryAcquire(t.Context(), oneFor1h.At("slots"))
	require.NoError(t, err)

	connection := client.Conn()
	require.NoError(t, connection.Ping(t.Context()).Err())
	l.SettleSoon(t.Context(), taken, 3)
	held.ReleaseSoon(t.Context())
	servertest.Eventually(t, "both have found no connection", func() bool { return unsent.Load() >= 2 })
	require.NoError(t, connection.Close()) // back into the pool
	left, err := l.Drain(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	result, err := patient.Peek(t.Context(), "key", fifteenPerDay)
	require.NoError(t, err)
	require.Equal(t, 12, result.Remaining)
	require.Zero(t, client.Exists(t.Context(), "slots").Val(), "a slot with a TTL of an hour")
}

// A settlement that an open breaker keeps away from Redis is sent when Redis answers again.
func TestOpenBreakerDelaysSettlements(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := server.Client(t, withoutRetries, func(options *redis.Options) { options.ContextTimeoutEnabled = true })
	patient := limiter.New(client, limiter.WithTimeout(servertest.Patience))
	taken, err := patient.AllowN(t.Context(), "key", fifteenPerDay, 10)
	require.NoError(t, err)
	l := limiter.New(client, limiter.WithTimeout(100*time.Millisecond))
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	servertest.Eventually(t, "the breaker is open", func() bool {
		_, err := l.Allow(t.Context(), "other", fifteenPerDay)
		return errors.Is(err, limiter.ErrNotAsked)
	})
	// The settlement may be the call that tries whether Redis answers: then it is sent at once.
	require.NoError(t, server.Signal(syscall.SIGCONT))
	l.SettleSoon(t.Context(), taken, 0)
	left, err := l.Drain(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	result, err := patient.Peek(t.Context(), "key", fifteenPerDay)
	require.NoError(t, err)
	require.Equal(t, 15, result.Remaining)
}

// An AutoPipeliner writes a command, the answer is lost, and there is no connection to repeat it
// on. The error is the one of a full pool, but the command was executed: a slot is asked back, and
// a charge is not made again.
func TestAutoPipelineThatCannotRepeat(t *testing.T) {
	t.Parallel()
	for _, fullDuplex := range []bool{true, false} {
		for _, loses := range []string{"cl.charge", "cl.reserve"} {
			what := fmt.Sprintf("%s, FullDuplex %v", loses, fullDuplex)
			server := servertest.StartModule(t)
			direct := limiter.New(server.Client(t))
			taken, err := direct.AllowN(t.Context(), "key", fifteenPerDay, 1)
			require.NoError(t, err)
			var isCut atomic.Bool // then no connection can be made
			client := redis.NewClient(&redis.Options{Addr: servertest.LoseAnswer(t, server.Addr(), loses), PoolSize: 1,
				PoolTimeout: 200 * time.Millisecond, DialerRetries: 1,
				AutoPipelineOptions: &redis.AutoPipelineOptions{FullDuplex: fullDuplex},
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if isCut.Load() {
						return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				}})
			t.Cleanup(func() { client.Close() })
			auto, err := client.AutoPipeline()
			require.NoError(t, err)
			t.Cleanup(func() { auto.Close() })
			require.NoError(t, auto.Set(t.Context(), "it has a connection", "", 0).Err())
			connection := client.Conn() // the only one of the pool
			require.NoError(t, connection.Ping(t.Context()).Err())
			isCut.Store(true)

			failures := make(chan error, 100)
			l := limiter.New(auto, limiter.WithTimeout(servertest.Patience), limiter.WithHook(func(_ context.Context, e limiter.Event) {
				if e.Err != nil {
					failures <- e.Err
				}
			}))
			if loses == "cl.charge" {
				l.SettleSoon(t.Context(), taken, 4)
			} else {
				_, err = l.TryAcquire(t.Context(), oneFor1h.At("slots"))
				require.ErrorIs(t, err, limiter.ErrUnavailable, what)
			}
			require.ErrorIs(t, <-failures, redis.ErrPoolTimeout, what)
			isCut.Store(false)
			require.NoError(t, connection.Close())
			left, err := l.Drain(t.Context())
			require.NoError(t, err, what)
			results, err := direct.PeekAll(t.Context(), limiter.Request{Key: "key", Limit: fifteenPerDay}, oneFor1h.At("slots"))
			require.NoError(t, err, what)
			require.Equal(t, map[string]int{"cl.charge": 11, "cl.reserve": 14}[loses], results[0].Remaining, "%s: tokens", what)
			require.Equal(t, 1, results[1].Remaining, "%s: free slots; Drain left %d", what, left)
		}
	}
}
