package limiter_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// once turns retries off, so that errors return at once.
func once(options *redis.Options) { options.MaxRetries, options.DialerRetries = -1, 1 }

// What each policy returns while the server is down, as its doc comment says, and that
// the server decides again when it is back.
func TestFailuresOfADeadServer(t *testing.T) {
	limit := limiter.PerDay(3)
	for _, c := range []struct {
		policy             limiter.Failure
		path               limiter.Path
		allowed, remaining [4]int
		stats              limiter.Stats
	}{
		{limiter.FailOpen, limiter.PathOpen, [4]int{1, 1, 1, 1}, [4]int{2, 2, 2, 2}, limiter.Stats{Module: 2, Open: 7}},
		{limiter.FailClosed, limiter.PathClosed, [4]int{0, 0, 0, 0}, [4]int{0, 0, 0, 0}, limiter.Stats{Module: 2, Closed: 7}},
		{limiter.FailLocal, limiter.PathLocal, [4]int{1, 1, 1, 0}, [4]int{2, 1, 0, 0}, limiter.Stats{Module: 2, Local: 7}},
		{limiter.FailWithError, "", [4]int{}, [4]int{}, limiter.Stats{Module: 2, Errors: 7}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			ctx, server := context.Background(), servertest.StartModule(t)
			var log bytes.Buffer
			var hook recordingHook
			l := limiter.New(server.Client(t, once),
				limiter.OnFailure(c.policy),
				limiter.WithTimeout(servertest.Patience),
				limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				limiter.WithHook(&hook))
			require.Equal(t, 2, allow(t, l, "key", limit).Remaining)

			server.Kill()
			ask := func(quantity int) limiter.Result {
				result, err := l.AllowN(ctx, "key", limit, quantity)
				told := hook.last()
				require.ErrorIs(t, told.Err, syscall.ECONNREFUSED, "hooks get the reason")
				require.Equal(t, result, told.Result)
				if c.policy == limiter.FailWithError {
					require.Equal(t, told.Err, err)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, c.path, result.Path)
				return result
			}
			for i := range c.allowed {
				result := ask(1)
				require.Equal(t, c.allowed[i], result.Allowed, i)
				require.Equal(t, c.remaining[i], result.Remaining, i)
				if c.policy == limiter.FailClosed {
					require.Equal(t, time.Second, result.RetryAfter)
					require.Equal(t, 24*time.Hour, result.ResetAfter)
				}
			}
			full, never, peek := ask(3), ask(4), ask(0)
			if c.policy == limiter.FailClosed {
				require.Equal(t, time.Second, full.RetryAfter)
			}
			if c.policy != limiter.FailWithError {
				require.True(t, never.Limited())
				require.Equal(t, limiter.NoRetry, never.RetryAfter)
				require.Equal(t, limiter.NoRetry, peek.RetryAfter)
				require.Equal(t, c.policy == limiter.FailOpen, !peek.Limited())
			}

			server.Restart(t) // without its data
			require.Equal(t, 2, allow(t, l, "key", limit).Remaining)
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
			require.Regexp(t, `level=INFO msg="rate limits are decided by Redis again" after=[0-9.]+m?s calls=7$`, lines[1])
		})
	}
}

// A call to a server that hangs takes no longer than the timeout, although the client
// itself would wait much longer.
func TestFailuresOfAHangingServer(t *testing.T) {
	ctx := context.Background()
	server := servertest.StartModule(t)
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailLocal), limiter.WithTimeout(50*time.Millisecond))
	decided := func(path limiter.Path) func() bool {
		return func() bool { return allow(t, l, "key", fifteenPerDay).Path == path }
	}
	servertest.Eventually(t, "Redis decides", decided(limiter.PathModule))
	patient := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailOpen))
	allow(t, patient, "key", fifteenPerDay)

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	require.True(t, decided(limiter.PathLocal)())
	results, err := l.AllowMany(ctx, []limiter.Request{{"a", fifteenPerDay, 1}, {"b", fifteenPerDay, 1}})
	require.NoError(t, err)
	require.Equal(t, limiter.PathLocal, results[1].Path)
	err = limiter.New(server.Client(t, once), limiter.WithTimeout(time.Millisecond)).Reset(ctx, "key")
	require.EqualError(t, err, "limiter: no answer from Redis within 1ms: context deadline exceeded")

	// A caller whose own context is done gets its error, whatever the policy.
	canceled, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = patient.Allow(canceled, "key", fifteenPerDay)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, server.Signal(syscall.SIGCONT))
	servertest.Eventually(t, "Redis decides again", decided(limiter.PathModule))
}

// A server that has no memory left, denies access or is a replica has failed, too. Who
// waits meanwhile succeeds when it is back.
func TestFailuresOfAServerThatRepliesErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.Background()
		clock := &repairingClock{}
		open := limiter.New(client, limiter.OnFailure(limiter.FailOpen))
		closed := limiter.New(client, limiter.OnFailure(limiter.FailClosed), limiter.WithClock(clock))
		require.Equal(t, path, allow(t, open, "key", fifteenPerDay).Path)
		for _, failure := range [][2][]any{
			{{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
			{{"acl", "setuser", "default", "-@all", "+acl"}, {"acl", "setuser", "default", "+@all"}},
			{{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
		} {
			require.NoError(t, client.Do(ctx, failure[0]...).Err())
			require.Equal(t, limiter.PathOpen, allow(t, open, "key", fifteenPerDay).Path, failure)
			clock.sleeps = 0
			clock.repair = func() { require.NoError(t, client.Do(ctx, failure[1]...).Err()) }
			require.NoError(t, closed.Wait(ctx, "key", fifteenPerDay))
			require.Equal(t, 3, clock.sleeps)
			require.Equal(t, path, allow(t, open, "key", fifteenPerDay).Path)
		}
	})
}

// A repairingClock repairs the server in the third sleep.
type repairingClock struct {
	sleeps int
	repair func()
}

func (c *repairingClock) Now() time.Time { return time.Now() }

func (c *repairingClock) Sleep(context.Context, time.Duration) error {
	if c.sleeps++; c.sleeps == 3 {
		c.repair()
	}
	return nil
}

// Hooks get each call and its result, in their order.
func TestHooks(t *testing.T) {
	type contextKey struct{}
	ctx := context.WithValue(context.Background(), contextKey{}, "value")
	var first, second recordingHook
	l := limiter.New(servertest.StartClient(t), limiter.WithHook(&first), limiter.WithHook(&second), limiter.WithPrefix("limits:"))
	result, err := l.AllowN(ctx, "key", fifteenPerDay, 5)
	require.NoError(t, err)
	told := first.last()
	require.Positive(t, told.Duration)
	require.Equal(t, limiter.Decision{Key: "limits:key", Limit: fifteenPerDay, Quantity: 5, Result: result, Duration: told.Duration}, told)
	require.Equal(t, told, second.last())
	require.Equal(t, "value", first.context.Value(contextKey{}))

	_, err = l.AllowMany(ctx, []limiter.Request{{"a", fifteenPerDay, 1}, {Key: "b", Quantity: 1}})
	require.Error(t, err)
	require.Len(t, first.decisions, 3)
	require.NoError(t, first.decisions[1].Err)
	require.ErrorContains(t, first.decisions[2].Err, "capacity must be at least 1")
}

type recordingHook struct {
	decisions []limiter.Decision
	context   context.Context
}

func (h *recordingHook) Decided(ctx context.Context, decision limiter.Decision) {
	h.decisions, h.context = append(h.decisions, decision), ctx
}

func (h *recordingHook) last() limiter.Decision { return h.decisions[len(h.decisions)-1] }
