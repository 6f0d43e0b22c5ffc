package limiter_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// once turns retries off, so that errors return at once.
func once(options *redis.Options) { options.MaxRetries = -1 }

// What each policy returns while the server is down, as its doc comment says, and that
// the server decides again when it is back.
func TestFailuresOfADeadServer(t *testing.T) {
	limit := limiter.PerDay(3)
	type step struct {
		allowed, remaining int
		path               limiter.Path
	}
	for _, c := range []struct {
		policy limiter.Failure
		dead   []step
		stats  limiter.Stats
	}{
		{limiter.FailOpen, []step{{1, 2, limiter.PathOpen}, {1, 2, limiter.PathOpen}, {1, 2, limiter.PathOpen}, {1, 2, limiter.PathOpen}},
			limiter.Stats{Module: 2, Open: 5}},
		{limiter.FailClosed, []step{{0, 0, limiter.PathClosed}, {0, 0, limiter.PathClosed}, {0, 0, limiter.PathClosed}, {0, 0, limiter.PathClosed}},
			limiter.Stats{Module: 2, Closed: 9}},
		{limiter.FailLocal, []step{{1, 2, limiter.PathLocal}, {1, 1, limiter.PathLocal}, {1, 0, limiter.PathLocal}, {0, 0, limiter.PathLocal}},
			limiter.Stats{Module: 2, Local: 5}},
		{limiter.FailWithError, []step{{}, {}, {}, {}}, limiter.Stats{Module: 2, Errors: 5}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			ctx := context.Background()
			server := withModule(t)
			var log lockedBuffer
			var hook recordingHook
			l := limiter.New(server.Client(t, once),
				limiter.OnFailure(c.policy),
				limiter.WithTimeout(servertest.Patience),
				limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				limiter.WithHook(&hook))
			require.Equal(t, 2, allow(t, l, "key", limit).Remaining)

			server.Kill()
			for i, want := range c.dead {
				result, err := l.Allow(ctx, "key", limit)
				if c.policy == limiter.FailWithError {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, want, step{result.Allowed, result.Remaining, result.Path}, "call %d", i+1)
				require.Equal(t, want.allowed == 0, result.Limited())
				told := hook.last()
				require.Error(t, told.Err, "hooks get the reason")
				require.Equal(t, result, told.Result)
			}
			if c.policy == limiter.FailClosed {
				for quantity, want := range []time.Duration{limiter.NoRetry, time.Second, time.Second, time.Second} {
					result, err := l.AllowN(ctx, "other", limit, quantity)
					require.NoError(t, err)
					require.True(t, result.Limited())
					require.Equal(t, want, result.RetryAfter, quantity)
				}
			}
			// As with a server, more than the capacity never fits.
			result, err := l.AllowN(ctx, "key", limit, 4)
			require.True(t, result.Limited())
			if c.policy == limiter.FailWithError {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, limiter.NoRetry, result.RetryAfter)
			}

			server.Restart(t) // without its data
			result = allow(t, l, "key", limit)
			require.Equal(t, limiter.PathModule, result.Path)
			require.Equal(t, 2, result.Remaining)
			require.NoError(t, hook.last().Err)
			require.Equal(t, c.stats, l.Stats())

			if c.policy == limiter.FailWithError {
				require.Empty(t, log.String())
				return
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			require.Len(t, lines, 2, log.String())
			require.Contains(t, lines[0], `level=WARN msg="rate limits are decided without Redis" policy=`+c.policy.String())
			require.Contains(t, lines[0], "connection refused")
			require.Contains(t, lines[1], `level=INFO msg="rate limits are decided by Redis again"`)
			require.Regexp(t, "calls=[59]$", lines[1])
		})
	}
}

// A call to a server that hangs takes no longer than the timeout, although the client
// itself would wait much longer.
func TestFailuresOfAHangingServer(t *testing.T) {
	ctx := context.Background()
	server := withModule(t)
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailLocal), limiter.WithTimeout(50*time.Millisecond))
	patient := limiter.New(server.Client(t, once))
	require.Eventually(t, func() bool {
		return allow(t, l, "key", fifteenPerDay).Path == limiter.PathModule
	}, servertest.Patience, time.Millisecond)
	allow(t, patient, "key", fifteenPerDay)

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	require.Equal(t, limiter.PathLocal, allow(t, l, "key", fifteenPerDay).Path)
	results, err := l.AllowMany(ctx, []limiter.Request{{Key: "a", Limit: fifteenPerDay, Quantity: 1}, {Key: "b", Limit: fifteenPerDay, Quantity: 1}})
	require.NoError(t, err)
	require.Equal(t, limiter.PathLocal, results[1].Path)
	err = limiter.New(server.Client(t, once), limiter.WithTimeout(time.Millisecond)).Reset(ctx, "key")
	require.EqualError(t, err, "limiter: no answer from Redis within 1ms: context deadline exceeded")

	// A caller whose own context is done gets its error, whatever the policy.
	canceled, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailOpen)).Allow(canceled, "key", fifteenPerDay)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = patient.Allow(canceled, "key", fifteenPerDay)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, server.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool {
		return allow(t, l, "key", fifteenPerDay).Path == limiter.PathModule
	}, servertest.Patience, time.Millisecond)
}

// A server that has no memory left, or denies access, has failed, too.
func TestFailuresOfAServerThatRepliesErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.Background()
		l := limiter.New(client, limiter.OnFailure(limiter.FailOpen))
		require.Equal(t, path, allow(t, l, "key", fifteenPerDay).Path)
		require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
		require.Equal(t, limiter.PathOpen, allow(t, l, "key", fifteenPerDay).Path)
		require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
		require.Equal(t, path, allow(t, l, "key", fifteenPerDay).Path)
		require.NoError(t, client.ACLSetUser(ctx, "default", "-@all", "+acl").Err())
		require.Equal(t, limiter.PathOpen, allow(t, l, "key", fifteenPerDay).Path)
		require.NoError(t, client.ACLSetUser(ctx, "default", "+@all").Err())
		require.Equal(t, path, allow(t, l, "key", fifteenPerDay).Path)
	})
}

// A caller that waits while the server is down succeeds when it is back.
func TestWaitThroughAFailure(t *testing.T) {
	server := withModule(t)
	clock := &countingClock{asleep: make(chan struct{}, 1000)}
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailClosed), limiter.WithClock(clock))
	server.Kill()
	done := make(chan error)
	go func() { done <- l.Wait(context.Background(), "key", fifteenPerDay) }()
	<-clock.asleep
	<-clock.asleep
	server.Restart(t)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(servertest.Patience):
		t.Fatal("still waiting")
	}
}

// A countingClock sleeps shortly, and signals when it does.
type countingClock struct{ asleep chan struct{} }

func (c *countingClock) Now() time.Time { return time.Now() }

func (c *countingClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case c.asleep <- struct{}{}:
	default:
	}
	time.Sleep(time.Millisecond)
	return ctx.Err()
}

// Hooks get each call and its result, one at a time.
func TestHooks(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.WithValue(context.Background(), contextKey{}, "value")
		var first, second recordingHook
		l := limiter.New(client, limiter.WithHook(&first), limiter.WithHook(&second), limiter.WithPrefix("limits:"))
		_, err := l.AllowN(ctx, "key", fifteenPerDay, 5)
		require.NoError(t, err)
		told := first.last()
		require.Equal(t, "limits:key", told.Key)
		require.Equal(t, fifteenPerDay, told.Limit)
		require.Equal(t, 5, told.Quantity)
		require.Equal(t, 10, told.Result.Remaining)
		require.Equal(t, path, told.Result.Path)
		require.Positive(t, told.Duration)
		require.NoError(t, told.Err)
		require.Equal(t, told, second.last())
		require.Equal(t, "value", first.contexts[0].Value(contextKey{}))

		_, err = l.AllowMany(ctx, []limiter.Request{{Key: "a", Limit: fifteenPerDay, Quantity: 1}, {Key: "b", Quantity: 1}})
		require.Error(t, err)
		require.Len(t, first.decisions, 3)
		require.NoError(t, first.decisions[1].Err)
		require.ErrorContains(t, first.decisions[2].Err, "capacity must be at least 1")
	})
}

type contextKey struct{}

type recordingHook struct {
	mutex     sync.Mutex
	decisions []limiter.Decision
	contexts  []context.Context
}

func (h *recordingHook) Decided(ctx context.Context, decision limiter.Decision) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.decisions = append(h.decisions, decision)
	h.contexts = append(h.contexts, ctx)
}

func (h *recordingHook) last() limiter.Decision {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.decisions[len(h.decisions)-1]
}

// A lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

// No server listens there.
func TestWithoutAnyServer(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	_, err := limiter.New(client).Allow(context.Background(), "key", fifteenPerDay)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	var none redis.Error
	require.False(t, errors.As(err, &none))
	require.Equal(t, 2, allow(t, limiter.New(client, limiter.OnFailure(limiter.FailOpen)), "key", limiter.PerDay(3)).Remaining)
}
