// What is an outage, and what is not. A failure of this process says nothing about Redis: the
// policy decides the call, and the breaker stays closed. A wrong password is no outage either, and
// is logged until somebody mends it.

package limiter_test

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestWhatIsAnOutage(t *testing.T) {
	t.Parallel()
	const (
		began   = "redis unavailable: rate limits fall back to policy open"
		refuses = `level=ERROR msg="redis refuses this program`
	)
	for _, c := range []struct {
		name   string
		err    error  // of the client
		says   string // the error without a policy
		opens  bool   // the breaker, after three of them: the fourth call is not sent
		logged string // with FailOpen
	}{
		// Failures of this process.
		{"the pool has no free connection", redis.ErrPoolTimeout, "connection pool timeout", false, began},
		{"the pool is exhausted", redis.ErrPoolExhausted, "connection pool exhausted", false, began},
		{"the queue of AutoPipeline is full", redis.ErrAutoPipelineQueueFull, "queue", false, began},
		{"the client is closed", redis.ErrClosed, "redis: client is closed", false, began},
		{"another local failure, wrapped", fmt.Errorf("a hook: %w", redis.ErrClosed),
			"a hook: redis: client is closed", false, began},
		// Outages.
		{"the server is down", &net.OpError{Op: "dial", Err: errors.New("connection refused")},
			"dial: connection refused", true, began},
		{"the connection breaks", io.EOF, "EOF", true, began},
		{"the server hangs", context.DeadlineExceeded, "context deadline exceeded", true, began},
		{"the network is cut", &net.OpError{Op: "read", Err: errors.New("no route to host")},
			"read: no route to host", true, began},
		{"a proxy speaks another protocol", errors.New(`redis: can't parse "HTTP"`), "can't parse", true, began},
		// Answers: the server decides nothing, and is there.
		{"loading", servertest.ErrorReply("LOADING Redis is loading"), "LOADING", false, began},
		{"no memory", servertest.ErrorReply("OOM command not allowed"), "OOM", false, began},
		{"a wrong password", servertest.ErrorReply("WRONGPASS invalid username-password pair"),
			"WRONGPASS", false, refuses},
		{"no password", servertest.ErrorReply("NOAUTH Authentication required."), "NOAUTH", false, refuses},
		{"no right to call anything",
			servertest.ErrorReply("NOPERM User app has no permissions to run the 'cl.reserve' command"),
			"NOPERM", false, refuses},
		{"no right to what the script calls",
			servertest.ErrorReply("ERR ACL failure in script: User app has no permissions to run the 'time' command"),
			"ACL failure", false, refuses},
		{"no right to what the script calls, Redis 7.0",
			servertest.ErrorReply("ERR The user executing the script can't run this command or subcommand script: f1"),
			"user executing", false, refuses},
		{"no right to a key, in a script",
			servertest.ErrorReply("ERR ACL failure in script: No permissions to access a key"), "ACL failure", false, began},
		{"no right to a key", servertest.ErrorReply("NOPERM No permissions to access a key"), "NOPERM", false, began},
	} {
		var sent atomic.Int64
		client := clientFunc(func(context.Context, redis.Cmder) error { sent.Add(1); return c.err })
		l := limiter.New(client, limiter.WithSource(limiter.FromModule))
		for call := range 4 {
			_, err := l.Allow(t.Context(), "the key", fifteenPerDay)
			require.ErrorIs(t, err, limiter.ErrUnavailable, "%s, call %d", c.name, call)
			require.ErrorContains(t, err, c.says, "%s, call %d", c.name, call)
			require.Regexp(t, `^limiter: key "the key": `, err.Error(), "%s, call %d", c.name, call)
			isAsked := call < 3 || !c.opens
			require.Equal(t, !isAsked, strings.Contains(err.Error(), "Redis is not asked, because it has not answered for"),
				"%s, call %d: %v", c.name, call, err)
		}
		want := int64(4)
		if c.opens {
			want = 3
		}
		require.Equal(t, want, sent.Load(), "%s: calls that were sent", c.name)

		var log bytes.Buffer
		open, clock := onClock(client, limiter.WithSource(limiter.FromModule), limiter.OnFailure(limiter.FailOpen),
			limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 10 {
			result := allow(t, open, "the key", fifteenPerDay)
			require.Equal(t, limiter.FromOpen, result.Source, "%s: OnFailure decides", c.name)
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "%s: %s", c.name, log.String())
		require.Contains(t, log.String(), c.logged, c.name)
		clock.advance(time.Minute)
		allow(t, open, "the key", fifteenPerDay)
		isWrong := strings.Contains(c.logged, "ERROR")
		require.Equal(t, isWrong, strings.Count(log.String(), "\n") == 2, "%s: logged each minute: %s", c.name, log.String())
	}
}

// A pool that is full is no outage, however many callers wait for it in vain, and whatever the
// client does at a deadline: calls that hold a connection are served.
func TestFullPoolIsNoOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		enabled bool // ContextTimeoutEnabled
		retries int
	}{{true, -1}, {true, 3}, {false, -1}, {false, 3}} {
		client := servertest.StartModule(t).Client(t, func(options *redis.Options) {
			options.ContextTimeoutEnabled, options.PoolSize, options.MaxRetries = c.enabled, 1, c.retries
		})
		l := limiter.New(client, limiter.WithTimeout(100*time.Millisecond))
		allow(t, limiter.New(client, limiter.WithTimeout(servertest.Patience)), "key", fifteenPerDay)
		blocked := make(chan error, 1)
		go func() { blocked <- client.BLPop(context.Background(), time.Second, "nothing").Err() }()
		servertest.Eventually(t, "the connection is in use", func() bool { return client.PoolStats().IdleConns == 0 })
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				_, err := l.Allow(context.Background(), "key", fifteenPerDay)
				if err == nil || !strings.Contains(err.Error(), "no connection was free in time, of 1 in the pool") {
					t.Errorf("%+v: %v", c, err)
				}
			})
		}
		group.Wait()
		require.ErrorIs(t, <-blocked, redis.Nil)
		_, err := l.Allow(context.Background(), "key", fifteenPerDay)
		require.NotContains(t, fmt.Sprint(err), "Redis is not asked", "%+v: the breaker is closed", c)
	}
}

// A command that was written may be executed, even if go-redis then fails in this process, when it
// repeats the command: its slot is asked back, and a settlement is not sent again.
func TestWrittenCommandsAreSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err       error
		isWritten bool
	}{
		{redis.ErrPoolTimeout, true}, {redis.ErrPoolTimeout, false},
		{redis.ErrPoolExhausted, true}, {redis.ErrPoolExhausted, false},
		{redis.ErrClosed, true}, {redis.ErrClosed, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			what := fmt.Sprintf("%v, written %v", c.err, c.isWritten)
			var refunds, calls atomic.Int64
			l := limiter.New(clientFunc(func(_ context.Context, command redis.Cmder) error {
				if command.Name() == "cl.refund" {
					refunds.Add(1)
					return redis.ErrClosed // nobody asks any more
				}
				calls.Add(1)
				if c.isWritten { // as go-redis does when it has a connection
					for _, word := range command.Args() {
						marshaler, is := word.(encoding.BinaryMarshaler)
						if is {
							_, _ = marshaler.MarshalBinary()
						}
					}
				}
				return c.err
			}), limiter.WithSource(limiter.FromModule), limiter.WithLogger(slog.New(slog.DiscardHandler)))
			_, err := l.TryAcquire(t.Context(), oneFor1h.At("slots"))
			require.ErrorIs(t, err, limiter.ErrUnavailable, what)
			synctest.Wait()
			require.Equal(t, c.isWritten, refunds.Load() > 0, "%s: the slot is asked back", what)

			result := limiter.Result{Key: "key", Limit: fifteenPerDay, Allowed: 1, Receipt: 1}
			_, err = l.Settle(t.Context(), &result, 3)
			require.ErrorIs(t, err, limiter.ErrUnavailable, what)
			require.Equal(t, c.isWritten, result.Allowed == 3, "%s: a charge may have been executed", what)
			for range 4 {
				_, _ = l.Allow(t.Context(), "key", fifteenPerDay)
			}
			if c.err == redis.ErrClosed {
				require.EqualValues(t, 6, calls.Load(), "%s: a closed client is no outage", what)
			}
		})
	}
}

// A proxy that does not know the module's commands says so in words of its own. The script then
// decides.
func TestProxyWithoutTheCommands(t *testing.T) {
	t.Parallel()
	client := connect(t, limiter.FromScript)
	for _, text := range []string{"ERR unknown command 'cl.reserve'", "ERR unsupported command `CL.RESERVE`",
		"ERR Unknown Command", "Proxy: Unsupported command", "ERR Proxy: command not supported",
		"ERR command not support", "ERR command is not supported", "ERR Command is not available: 'CL.RESERVE'. See x"} {
		l := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error {
			if strings.HasPrefix(command.Name(), "cl.") {
				return servertest.ErrorReply(text)
			}
			return client.Process(ctx, command)
		}))
		require.Equal(t, limiter.FromScript, allow(t, l, text, fifteenPerDay).Source, text)
	}
}

// A caller that cannot wait so long gets the wait as a value: a loop can sleep.
func TestWaitErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewLocal(limiter.WithMaxWait(time.Second))
		perHour := limiter.Per(1, time.Hour)
		require.NoError(t, l.Wait(t.Context(), "{a}funnel", perHour))
		allow(t, l, "{a}day", limiter.Until(1, time.Now().Add(time.Minute)))
		requireSlot(t, l, "{a}slots", oneFor1h)
		request := limiter.Request{Key: "{a}funnel", Limit: perHour, Quantity: 1}
		for name, c := range map[string]struct {
			call func() error
			key  string
			wait time.Duration
		}{
			"Wait": {func() error { return l.Wait(t.Context(), "{a}funnel", perHour) }, "{a}funnel", time.Hour - time.Second},
			"WaitN of a quota": {func() error {
				return l.Wait(t.Context(), "{a}day", limiter.Until(1, time.Now().Add(time.Minute)))
			}, "{a}day", time.Minute},
			"WaitAll": {func() error { _, err := l.WaitAll(t.Context(), request); return err }, "{a}funnel", time.Hour},
			"Acquire, tokens": {func() error {
				_, err := l.Acquire(t.Context(), oneFor1h.At("{a}others"), request)
				return err
			}, "{a}funnel", time.Hour},
			"Acquire, slots": {func() error {
				_, err := l.Acquire(t.Context(), oneFor1h.At("{a}slots"))
				return err
			}, "{a}slots", time.Second},
		} {
			err := c.call()
			var late *limiter.WaitError
			require.ErrorAs(t, err, &late, name)
			require.ErrorIs(t, err, limiter.ErrWaitTooLong, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, c.key, late.Key, name)
			require.InDelta(t, c.wait, late.RetryAfter, float64(2*time.Second), name)
			require.Regexp(t, `^limiter: wait too long: key "`+c.key, err.Error(), name)
		}
	})
}

// A pipeline sends nothing before Exec.
func TestPipelinesAreNoClients(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, pipeline := range []redis.Pipeliner{rdb.Pipeline(), rdb.TxPipeline()} {
		const want = "limiter: New needs a client of Redis, not a *redis.Pipeline: it sends nothing before Exec. " +
			"To pipeline the calls of many goroutines, use AutoPipeline of the client"
		require.PanicsWithValue(t, want, func() { limiter.New(pipeline) })
	}
	auto, err := rdb.AutoPipeline()
	require.NoError(t, err)
	require.NotPanics(t, func() { limiter.New(auto) })
}
