package limiter_test

import (
	"bytes"
	"context"
	"fmt"
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

// What each policy returns while the server is down, as its doc comment says, and that
// the server decides again when it is back.
func TestFailuresOfADeadServer(t *testing.T) {
	limit := perDay(3)
	for _, c := range []struct {
		policy             limiter.Failure
		path               limiter.Path
		allowed, remaining [4]int
	}{
		{limiter.FailOpen, limiter.PathOpen, [4]int{1, 1, 1, 1}, [4]int{2, 2, 2, 2}},
		{limiter.FailClosed, limiter.PathClosed, [4]int{0, 0, 0, 0}, [4]int{0, 0, 0, 0}},
		{limiter.FailLocal, limiter.PathLocal, [4]int{1, 1, 1, 0}, [4]int{2, 1, 0, 0}},
		{limiter.FailWithError, "", [4]int{}, [4]int{}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			ctx, server, now := context.Background(), servertest.StartModule(t), time.Now()
			var log bytes.Buffer
			var told recorder
			l := limiter.New(server.Client(t, once),
				limiter.OnFailure(c.policy),
				limiter.WithTimeout(servertest.Patience),
				limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				limiter.WithHook(told.hook))
			limiter.SetNow(l, func() time.Time { return now })
			require.Equal(t, 2, allow(t, l, "key", limit).Remaining)

			server.Kill()
			ask := func(quantity int) limiter.Result {
				result, err := l.AllowN(ctx, "key", limit, quantity)
				require.ErrorIs(t, told.last().Cause, syscall.ECONNREFUSED, "hooks get the reason")
				require.Equal(t, c.policy == limiter.FailWithError, err != nil)
				require.Equal(t, err, told.last().Err)
				require.Equal(t, result, told.last().Result)
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
			if never, none := ask(4), ask(0); c.policy != limiter.FailWithError {
				require.True(t, never.Limited())
				require.Equal(t, limiter.NoRetry, never.RetryAfter)
				require.False(t, none.Limited())
			}
			_, results, err := l.AllowAll(ctx, limiter.Request{"a", limit, 3}, limiter.Request{"b", limit, 4})
			require.Equal(t, c.policy == limiter.FailWithError, err != nil)
			require.Zero(t, results[0].Allowed)

			server.Restart(t) // without its data
			now = now.Add(time.Second)
			require.Equal(t, limiter.PathModule, allow(t, l, "key", limit).Path)
			require.NoError(t, told.last().Cause)
			line := `level=WARN msg="rate limits are decided without Redis" policy=` + c.policy.String() + ` error=.*connection refused"\n$`
			if c.policy == limiter.FailWithError {
				line = "^$"
			}
			require.Regexp(t, line, log.String())
		})
	}
}

// A server that has no memory left, denies access, is a replica, or lacks one, has failed,
// whatever it replies.
func TestFailuresOfAServerThatRepliesErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.Background()
		for _, c := range []struct {
			fail, repair []any
			code         string
		}{
			{[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}, "OOM"},
			{[]any{"acl", "setuser", "default", "-@all", "+acl"}, []any{"acl", "setuser", "default", "+@all"}, "NOPERM"},
			{[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}, "READONLY"},
			{[]any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}, "NOREPLICAS"},
		} {
			var told recorder
			l := limiter.New(client, limiter.OnFailure(limiter.FailOpen), limiter.WithHook(told.hook))
			require.NoError(t, client.Do(ctx, c.fail...).Err())
			for range 4 {
				require.Equal(t, limiter.PathOpen, allow(t, l, "key", fifteenPerDay).Path, c.code)
				require.ErrorContains(t, told.last().Cause, c.code)
			}
			require.NoError(t, client.Do(ctx, c.repair...).Err())
			require.Equal(t, path, allow(t, l, "key", fifteenPerDay).Path, "%s, an answer that opens no breaker", c.code)
		}
	})
}

// The code of an error says whether the call is wrong or the server has failed.
func TestCodesOfErrors(t *testing.T) {
	client := bare(t).Client(t)
	for text, isFault := range map[string]bool{
		"ERR the key does not hold a funnel": true, "WRONGTYPE Operation": true,
		"ERR max number of clients reached": false, "ERR unknown command 'cl.reserve'": false,
		"LOADING": false, "OOM": false, "READONLY": false, "NOPERM": false, "NOREPLICAS": false, "MISCONF": false,
		"BUSY": false, "CLUSTERDOWN": false, "MASTERDOWN": false, "NOAUTH": false, "NEWCODE ERR": false,
	} {
		err := client.Eval(context.Background(), "return {err = ARGV[1]}", nil, text).Err()
		require.ErrorContains(t, err, text)
		require.Equal(t, isFault, limiter.IsFault(err), text)
	}
}

// A caller that waits while Redis has failed, and every call is limited, is served when it is
// back.
func TestWaitOutlastsAFailure(t *testing.T) {
	server := bare(t)
	var told recorder
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailClosed), limiter.WithHook(told.hook))
	server.Kill()
	done := make(chan error)
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	go func() { done <- l.Wait(ctx, "key", fifteenPerDay) }()
	servertest.Eventually(t, "it has asked", func() bool { return told.count() > 0 })
	server.Restart(t)
	require.NoError(t, <-done)
	require.Equal(t, limiter.PathScript, told.last().Result.Path)
}

// One key that fails beside good ones is one outage, not thousands.
func TestOutageIsLoggedTwice(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	l := limiter.New(as(t, servertest.StartModule(t), "+@all", "~good:*"),
		limiter.OnFailure(limiter.FailOpen), limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	limiter.SetNow(l, func() time.Time { return now })
	for i := range 1000 {
		require.Equal(t, limiter.PathModule, allow(t, l, fmt.Sprint("good:", i), fifteenPerDay).Path)
		require.Equal(t, limiter.PathOpen, allow(t, l, "bad", fifteenPerDay).Path)
		now = now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	now = now.Add(10 * time.Second)
	allow(t, l, "good:0", fifteenPerDay)
	allow(t, l, "good:0", fifteenPerDay)
	require.Contains(t, log.String(), "level=INFO msg=\"rate limits are decided by Redis again\" after=1m39.9s calls=1000\n")
	require.Equal(t, 2, strings.Count(log.String(), "\n"))

	allow(t, l, "bad", fifteenPerDay)
	now = now.Add(10 * time.Second)
	allow(t, l, "good:0", fifteenPerDay)
	require.Contains(t, log.String(), "by Redis again\" after=0s calls=1\n", "another outage")
}

// A hooked client has a function run before each command, and one after it.
type hooked struct {
	*redis.Client
	before, after func(command string)
}

func (c *hooked) Process(ctx context.Context, command redis.Cmder) error {
	c.before(command.Name())
	defer c.after(command.Name())
	return c.Client.Process(context.WithoutCancel(ctx), command)
}

func ignore(string) {}

// The first peek says how the server reads a capacity, and the second one, which would be
// right, gets no answer.
func TestNothingIsDecidedBesideAnError(t *testing.T) {
	server := servertest.StartModule(t, "compat", "redis-cell")
	rdb := &hooked{server.Client(t, once), ignore, func(string) { server.Kill() }}
	var told recorder
	result, err := limiter.New(rdb, limiter.WithHook(told.hook)).Peek(context.Background(), "key", perDay(15))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, limiter.Result{Limit: perDay(15), Quantity: 1}, result, "what was asked")
	require.True(t, result.Limited())
	require.Equal(t, result, told.last().Result)
}

// Hooks get each decision, in their order.
func TestHooks(t *testing.T) {
	ctx := context.Background()
	var first, second recorder
	l := limiter.New(servertest.StartClient(t), limiter.WithHook(first.hook), limiter.WithPrefix("limits:"), limiter.WithHook(
		func(ctx context.Context, event limiter.Event) {
			require.Equal(t, first.last(), event)
			second.hook(ctx, event)
		}))
	result, err := l.AllowN(ctx, "key", fifteenPerDay, 5)
	require.NoError(t, err)
	told := second.last()
	require.Positive(t, told.Duration)
	require.Equal(t, limiter.Event{Command: "reserve", Key: "limits:key", Result: result, Duration: told.Duration}, told)

	results, wrong := l.AllowMany(ctx, limiter.Request{"a", fifteenPerDay, 1}, limiter.Request{Key: "b"})
	_, all, err := l.AllowAll(ctx, limiter.Request{"c", fifteenPerDay, 1}, limiter.Request{"d", fifteenPerDay, 1})
	require.NoError(t, err)
	for i, want := range append(results, all...) {
		told := second.told[1+i]
		require.Equal(t, limiter.Event{Command: "reserve", Key: "limits:" + string(rune('a'+i)), Result: want, Err: told.Err, Cause: told.Err, Duration: told.Duration}, told)
	}
	require.EqualError(t, wrong, second.told[2].Err.Error())
	for name, ask := range commands {
		_, err := ask(l, ctx, "key", fifteenPerDay, 1)
		require.NoError(t, err)
		require.Equal(t, name, second.last().Command)
	}
}

// A decision without Redis has no receipt of an answer that comes after it.
func TestLateAnswersHaveNoReceipt(t *testing.T) {
	for _, policy := range []limiter.Failure{limiter.FailOpen, limiter.FailLocal} {
		ctx, client := context.Background(), servertest.StartClient(t)
		release := make(chan struct{})
		rdb := &hooked{client, func(command string) {
			if command == "cl.reserve" {
				<-release
			}
		}, ignore}
		l := limiter.New(rdb, limiter.WithTimeout(100*time.Millisecond), limiter.OnFailure(policy), limiter.WithHook(
			func(_ context.Context, event limiter.Event) {
				if event.Command == "reserve" {
					close(release)
					servertest.Eventually(t, "it has been executed", func() bool { return client.Exists(ctx, "key").Val() > 0 })
					time.Sleep(20 * time.Millisecond) // the answer is read
				}
			}))
		servertest.Eventually(t, "it learns how the capacity is read", func() bool {
			result, err := l.Peek(ctx, "key", fifteenPerDay)
			return err == nil && result.Path == limiter.PathModule
		})
		given, err := l.AllowN(ctx, "key", fifteenPerDay, 10)
		require.NoError(t, err)
		stored := client.Get(ctx, "key").Val()
		settled, err := l.Settle(ctx, &given, 0)
		require.NoError(t, err)
		require.Equal(t, policy == limiter.FailOpen, settled == given, "nothing is given back")
		require.Equal(t, stored, client.Get(ctx, "key").Val())
	}
}
