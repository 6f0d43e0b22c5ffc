// Settle gives back what a call took and did not use, or charges what it used beyond, once, by one
// command. Without a receipt nothing is given back. A Result is settled as soon as a command may
// have been sent.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	var told recorder
	quiet := limiter.WithLogger(slog.New(slog.DiscardHandler))
	options := []limiter.Option{limiter.WithPrefix("p:"), limiter.WithHook(told.hook), quiet}
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		address, sent := servertest.HideCommands(t, client.Options().Addr, "cl.none")
		rdb := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { rdb.Close() })
		require.NoError(t, client.ScriptLoad(t.Context(), limiter.Script()).Err())
		testSettle(t, limiter.New(rdb, options...), path, &told, func() (lines string) {
			for _, words := range sent() {
				if path == limiter.PathScript && len(words) > 5 { // EVALSHA, its hash, 1, the key, the operation, ...
					words = slices.Concat([]string{"cl." + words[4], words[3]}, words[5:])
				}
				lines += strings.Join(words, " ") + "\n"
			}
			return lines
		})
	})
	t.Run("NewLocal", func(t *testing.T) { testSettle(t, limiter.NewLocal(options...), limiter.PathLocal, &told, nil) })
	t.Run("FailLocal", func(t *testing.T) {
		l := limiter.New(unreachable(t), append(options, limiter.OnFailure(limiter.FailLocal))...)
		testSettle(t, l, limiter.PathLocal, &told, nil)
	})
}

// testSettle takes n tokens in each row, and settles them. Sent, where something is, returns the
// commands that were sent since it was called last.
func testSettle(t *testing.T, l *limiter.Limiter, path limiter.Path, told *recorder, sent func() string) {
	type take func(key string, n int) (limiter.Result, error)
	ctx, day := t.Context(), fifteenPerDay
	by := func(command string) take {
		return func(key string, n int) (limiter.Result, error) { return commands[command](l, key, n) }
	}
	later := func(key string, n int) (limiter.Result, error) {
		_, _ = l.AllowN(ctx, key, day, 15)
		return l.Reserve(ctx, key, day, n, 48*time.Hour)
	}
	several := func(key string, n int) (limiter.Result, error) {
		results, err := l.AllowAll(ctx, limiter.Request{key + "'", perDay(30), 1}, limiter.Request{key, day, n})
		return results[1], err
	}
	besideALimited := func(key string, n int) (limiter.Result, error) {
		results, err := l.AllowAll(ctx, limiter.Request{key, day, 1}, limiter.Request{key + "'", perDay(30), n})
		return results[0], err
	}
	inAnotherProcess := func(key string, n int) (limiter.Result, error) {
		taken, err := l.AllowN(ctx, key, day, n)
		return limiter.Result{Key: key, Limit: day, Allowed: n, Receipt: taken.Receipt, Path: path}, err
	}
	for _, c := range []struct {
		name    string
		take    take
		n, used int
		want    string // the operation and its quantity
	}{
		{"all used", by("reserve"), 10, 10, ""},
		{"none used", by("reserve"), 1, 0, "refund 1"},
		{"some used", by("reserve"), 10, 4, "refund 6"},
		{"more used", by("reserve"), 10, 20, "charge 10"},
		{"taken in part, some used", by("take"), 20, 4, "refund 11"},
		{"taken in part, more used", by("take"), 20, 20, "charge 5"},
		{"reserved for later", later, 12, 0, "refund 12"},
		{"charged, some used", by("charge"), 20, 3, "refund 17"},
		{"one of several, some used", several, 10, 4, "refund 6"},
		{"limited", by("reserve"), 16, 0, ""},
		{"limited, and used", by("reserve"), 16, 2, "charge 2"},
		{"limited beside another", besideALimited, 31, 0, ""},
		{"peeked", by("peek"), 1, 0, ""},
		{"peeked, and used", by("peek"), 1, 3, "charge 3"},
		{"taken in another process", inAnotherProcess, 10, 4, "refund 6"},
	} {
		result, err := c.take(c.name, c.n)
		require.NoError(t, err, c.name)
		given := result
		if sent != nil {
			_ = sent()
		}
		settled, err := l.Settle(ctx, &result, c.used)
		require.NoError(t, err, c.name)
		if c.want == "" {
			require.Equal(t, []limiter.Result{given, given}, []limiter.Result{settled, result}, c.name)
			continue
		}
		operation, quantity, tokens := "", 0, 0.0
		_, _ = fmt.Sscan(c.want, &operation, &quantity)
		words := []any{"cl." + operation, "p:" + c.name, 15, 15, 86400, quantity}
		if tokens = float64(quantity); operation == "refund" {
			words, tokens = append(words, given.Receipt), -tokens
		}
		if sent != nil {
			require.Equal(t, fmt.Sprintln(words...), sent(), c.name)
		}
		require.Equal(t, []any{c.name, day, quantity, quantity, path},
			[]any{settled.Key, settled.Limit, settled.Quantity, settled.Allowed, settled.Path}, c.name)
		if given.ResetAfter > 0 {
			reset := max(0, float64(given.ResetAfter)+tokens*float64(96*time.Minute))
			require.InDelta(t, reset, settled.ResetAfter, float64(time.Minute), c.name)
		}
		event := told.last()
		want := limiter.Event{Command: operation, Key: "p:" + c.name, Result: settled, Duration: event.Duration}
		require.Equal(t, want, event, c.name)

		// Again.
		given.Allowed, given.Receipt = c.used, 0
		require.Equal(t, given, result, c.name)
		for _, used := range []int{c.used, 0} {
			settled, err = l.Settle(ctx, &result, used)
			require.NoError(t, err, c.name)
			require.Equal(t, []limiter.Result{given, given}, []limiter.Result{settled, result}, c.name)
		}
		if sent != nil {
			require.Empty(t, sent(), c.name)
		}
	}

	// What is wrong changes nothing.
	result, err := l.AllowN(ctx, "wrong", day, 10)
	require.NoError(t, err)
	given := result
	_, err = l.Settle(ctx, &result, -1)
	require.ErrorContains(t, err, `limiter: key "wrong": the number of used tokens must be at least 0, not -1`)
	_, err = l.Settle(ctx, &result, math.MaxInt)
	require.ErrorContains(t, err, "quantity 9223372036854775797 of a limit of")
	_, err = l.Settle(ctx, nil, 0)
	require.ErrorContains(t, err, "limiter: Settle needs a Result, not nil")
	require.Equal(t, given, result)
}

// Decisions without Redis have no receipt, and an error of Redis is Settle's, whatever the policy.
func TestSettleWithoutAReceipt(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), servertest.StartModule(t)
	rdb, admin := as(t, server, "+@all", "~*"), server.Client(t)
	for policy, allowed := range map[limiter.FailurePolicy]int{limiter.FailOpen: 5, limiter.FailClosed: 0} {
		key, l := policy.String(), limiter.New(rdb, limiter.OnFailure(policy))
		require.NoError(t, admin.ACLSetUser(ctx, "app", "-@all").Err())
		result, err := l.AllowN(ctx, key, fifteenPerDay, 5)
		require.NoError(t, err)
		require.Equal(t, []any{allowed, int64(0), limiter.Path(key)}, []any{result.Allowed, result.Receipt, result.Path})
		failed := result
		_, err = l.Settle(ctx, &failed, allowed+2)
		require.ErrorContains(t, err, "NOPERM", key)
		require.Equal(t, allowed+2, failed.Allowed, "it was sent")

		require.NoError(t, admin.ACLSetUser(ctx, "app", "+@all").Err())
		settled, err := l.Settle(ctx, &result, 0)
		require.NoError(t, err)
		require.Equal(t, result, settled)
		settled, err = l.Settle(ctx, &result, allowed+2)
		require.NoError(t, err)
		require.Equal(t, []int{2, 13}, []int{settled.Allowed, settled.Remaining}, key)
	}
}

// A Result is settled once a command may have been sent, and not while nothing was.
func TestSettledWhenSent(t *testing.T) {
	t.Parallel()
	ctx, server, reason := t.Context(), servertest.StartModule(t), errors.New("the reason")
	canceled, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	l := limiter.New(server.Client(t, once), limiter.OnFailure(limiter.FailOpen))
	clock := startClock(l)
	for range 5 {
		allow(t, l, "key", fifteenPerDay)
	}
	last := allow(t, l, "key", fifteenPerDay)
	settle := func(ctx context.Context, want error, isSettled bool) {
		t.Helper()
		result := last
		_, err := l.Settle(ctx, &result, 0)
		require.ErrorIs(t, err, want)
		require.Equal(t, isSettled, result.Allowed == 0)
		require.Equal(t, isSettled, result.Receipt == 0)
	}
	settle(canceled, reason, false)

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	short, cancelShort := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancelShort()
	settle(short, context.DeadlineExceeded, true)
	server.Kill()
	require.Equal(t, limiter.PathOpen, allow(t, l, "key", fifteenPerDay).Path)
	settle(ctx, syscall.ECONNREFUSED, true)
	_, _ = l.Peek(ctx, "key", fifteenPerDay)
	settle(ctx, syscall.ECONNREFUSED, false) // the breaker is open
	server.Restart(t)
	clock.advance(time.Second)
	settle(ctx, nil, true)

	l = limiter.NewLocal()
	last = allow(t, l, "key", fifteenPerDay)
	settle(canceled, reason, false)
	result := last
	_, err := l.Settle(ctx, &result, 1_500_000)
	require.ErrorIs(t, err, gcra.ErrTAT)
	require.Equal(t, last, result)
	settle(ctx, nil, true)
}

// A Result decided without Redis has no receipt of an answer that comes after it.
func TestLateAnswersHaveNoReceipt(t *testing.T) {
	t.Parallel()
	for _, policy := range []limiter.FailurePolicy{limiter.FailOpen, limiter.FailLocal} {
		ctx, server := context.Background(), servertest.StartModule(t)
		client := server.Client(t)
		require.Zero(t, client.Exists(ctx, "key").Val(), "it is connected")
		answered := func(context.Context, limiter.Event) {
			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "it has been executed", func() bool { return client.Exists(ctx, "key").Val() > 0 })
			time.Sleep(20 * time.Millisecond) // the answer is read
		}
		timeout := limiter.WithTimeout(50 * time.Millisecond)
		l := limiter.New(client, timeout, limiter.OnFailure(policy), limiter.WithHook(answered))
		require.NoError(t, server.Signal(syscall.SIGSTOP))
		given, err := l.AllowN(ctx, "key", fifteenPerDay, 10)
		require.NoError(t, err)
		require.Equal(t, 10, given.Allowed)
		require.Equal(t, policy == limiter.FailOpen, given.Receipt == 0, policy)
		stored := client.Get(ctx, "key").Val()
		require.NotEqual(t, stored, fmt.Sprint(given.Receipt))
		_, err = l.Settle(ctx, &given, 0)
		require.NoError(t, err)
		require.Equal(t, stored, client.Get(ctx, "key").Val(), "nothing is given back")
	}
}
