package limiter_test

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// The Result of each method is settled once, by one command, also in the funnels of this
// process: as much is given back, or charged.
func TestSettle(t *testing.T) {
	var told recorder
	options := []limiter.Option{limiter.WithPrefix("p:"), limiter.WithHook(told.hook)}
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		address, sent := servertest.HideCommands(t, client.Options().Addr, "cl.none")
		rdb := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { rdb.Close() })
		require.NoError(t, client.ScriptLoad(t.Context(), limiter.Script()).Err())
		testSettle(t, limiter.New(rdb, options...), path, &told, func(key string) (receipt, lines string) {
			for _, words := range sent() {
				if path == limiter.PathScript && len(words) > 5 { // EVALSHA, its hash, 1, the key, the operation, ...
					words = slices.Concat([]string{"cl." + words[4], words[3]}, words[5:])
				}
				lines += strings.Join(words, " ") + "\n"
			}
			return client.Get(t.Context(), "p:"+key).Val(), lines
		})
	})
	noWire := func(string) (receipt, lines string) { return "", "" }
	t.Run("NewLocal", func(t *testing.T) { testSettle(t, limiter.NewLocal(options...), limiter.PathLocal, &told, noWire) })
	t.Run("FailLocal", func(t *testing.T) {
		options = append(options, limiter.OnFailure(limiter.FailLocal), limiter.WithLogger(slog.New(slog.DiscardHandler)))
		testSettle(t, limiter.New(unreachable(t), options...), limiter.PathLocal, &told, noWire)
	})
}

func testSettle(t *testing.T, l *limiter.Limiter, path limiter.Path, told *recorder, wire func(key string) (receipt, lines string)) {
	type R = limiter.Result
	const foreign, token = "limiter: Settle needs a Result that a method of this Limiter returned for one key", float64(96 * time.Minute)
	ctx, day := t.Context(), fifteenPerDay
	allow := func(key string, n int) (R, error) { return l.AllowN(ctx, key, day, n) }
	most := func(key string, n int) (R, error) { return l.AllowAtMost(ctx, key, day, n) }
	peek := func(key string, _ int) (R, error) { return l.Peek(ctx, key, day) }
	charge := func(key string, n int) (R, error) { return l.Charge(ctx, key, day, n) }
	refund := func(key string, n int) (R, error) { return l.Refund(ctx, key, day, n) }
	later := func(key string, n int) (R, error) {
		_, _ = allow(key, 15)
		return l.Reserve(ctx, key, day, n, 48*time.Hour)
	}
	rows := func(i int, many bool) func(key string, n int) (R, error) {
		return func(key string, n int) (R, error) {
			requests := []limiter.Request{{key + "'", perDay(30), 1}, {key, day, n}}
			if many {
				results, err := l.AllowMany(ctx, requests...)
				return results[i], err
			}
			whole, results, err := l.AllowAll(ctx, requests...)
			return append(results, whole)[i], err
		}
	}
	first, all, whole, many := rows(0, false), rows(1, false), rows(2, false), rows(1, true)
	charged := func(key string, n int) (R, error) { two, _ := allow(key, 2); return l.Settle(ctx, &two, 2+n) }
	literal := func(_ string, n int) (R, error) { return R{Limit: day, Quantity: n, Allowed: n, Path: path}, nil }
	other := func(key string, n int) (R, error) { return limiter.NewLocal().AllowN(ctx, key, day, n) }
	for i, c := range []struct {
		take      func(key string, n int) (R, error)
		n, used   int
		operation string // and how many; with an error, those of Settle of 0 after it
		many      int
		err       string
	}{
		{allow, 1, 0, "refund", 1, ""}, {allow, 10, 4, "refund", 6, ""}, {allow, 10, 13, "charge", 3, ""}, {allow, 10, 20, "charge", 10, ""},
		{most, 10, 4, "refund", 6, ""}, {most, 20, 4, "refund", 11, ""}, {most, 20, 20, "charge", 5, ""}, // it got 15
		{later, 12, 0, "refund", 12, ""}, {later, 12, 13, "charge", 1, ""}, {charge, 20, 3, "refund", 17, ""},
		{all, 10, 4, "refund", 6, ""}, {all, 10, 13, "charge", 3, ""}, {many, 10, 4, "refund", 6, ""}, {many, 10, 13, "charge", 3, ""},
		{charged, 5, 1, "refund", 4, ""},
		// The same number, and results that took nothing; first is of a funnel that has room.
		{allow, 10, 10, "", 0, ""}, {most, 20, 15, "", 0, ""}, {all, 10, 10, "", 0, ""}, {allow, 0, 0, "", 0, ""},
		{allow, 16, 0, "", 0, ""}, {all, 16, 0, "", 0, ""}, {first, 16, 0, "", 0, ""}, {peek, 1, 0, "", 0, ""},
		{allow, 16, 2, "charge", 2, ""}, {all, 16, 2, "charge", 2, ""}, {peek, 1, 3, "charge", 3, ""},
		// Errors, which mark nothing as settled.
		{allow, 10, -1, "refund", 10, "the number of used tokens must be at least 0, not -1"},
		{allow, 10, math.MaxInt, "refund", 10, "quantity 9223372036854775797 of a limit of"},
		{literal, 10, 4, "", 0, foreign}, {literal, 10, 10, "", 0, foreign}, {whole, 10, 4, "", 0, foreign}, {refund, 10, 4, "", 0, foreign}, {other, 10, 4, "", 0, foreign},
	} {
		key, row := fmt.Sprint("k", i), fmt.Sprintf("row %d: %d and %d, %s", i, c.n, c.used, c.operation)
		result, err := c.take(key, c.n)
		require.NoError(t, err, row)
		given := result
		receipt, _ := wire(key)
		if c.err != "" {
			_, err = l.Settle(ctx, &result, c.used)
			require.ErrorContains(t, err, c.err, row)
			c.used = 0
		}
		settled, err := l.Settle(ctx, &result, c.used)
		after, lines := wire(key)
		if c.operation == "" { // which may be done again
			require.Equal(t, []any{receipt, "", given}, []any{after, lines, result}, row)
			if require.Equal(t, c.err != "", err != nil, row); err == nil {
				require.Equal(t, given, settled, row)
			}
			continue
		}
		require.NoError(t, err, row)
		words, tokens := []any{"cl." + c.operation, "p:" + key, 15, 15, 86400, c.many}, float64(c.many)
		if c.operation == "refund" {
			words, tokens = append(words, receipt), -tokens
		}
		if after != "" || receipt != "" {
			require.Equal(t, fmt.Sprintln(words...), lines, row)
		}
		require.Equal(t, []any{day, c.many, c.many, path}, []any{settled.Limit, settled.Quantity, settled.Allowed, settled.Path}, row)
		require.InDelta(t, max(0, float64(given.ResetAfter)+tokens*token), settled.ResetAfter, float64(time.Minute), row)
		require.Equal(t, limiter.Event{Command: c.operation, Key: "p:" + key, Result: settled, Duration: told.last().Duration}, told.last())
		for _, used := range []int{0, result.Allowed, 100} {
			_, err = l.Settle(ctx, &result, used)
			require.ErrorIs(t, err, limiter.ErrSettled, row)
		}
		_, lines = wire(key)
		require.Empty(t, lines, row)
	}
}

// Without a receipt nothing is given back, and more is charged. An error of Redis is that of
// Settle, whatever the policy.
func TestSettleWithoutAReceipt(t *testing.T) {
	ctx, server := t.Context(), servertest.StartModule(t)
	rdb, admin := as(t, server, "+@all", "~*"), server.Client(t)
	for _, c := range []struct {
		path           limiter.Path
		rules          []string // while tokens are taken
		before         int      // tokens of the funnel
		allowed, after int
		option         limiter.Option
	}{
		{limiter.PathOpen, []string{"-@all"}, 0, 5, 2, limiter.OnFailure(limiter.FailOpen)},
		{limiter.PathClosed, []string{"-@all"}, 0, 0, 2, limiter.OnFailure(limiter.FailClosed)},
		{limiter.PathModule, []string{"-@all", "+cl.throttle"}, 0, 5, 12, limiter.OnFailure(limiter.FailOpen)},
		{limiter.PathPrefilter, nil, 15, 0, 4, limiter.WithPrefilter()},
	} {
		key, l := string(c.path), limiter.New(rdb, c.option, limiter.WithLogger(slog.New(slog.DiscardHandler)))
		full, err := l.AllowN(ctx, key, fifteenPerDay, c.before)
		require.NoError(t, err)
		require.NoError(t, admin.ACLSetUser(ctx, "app", c.rules...).Err())
		var results [2]limiter.Result
		for i := range results {
			results[i], err = l.AllowN(ctx, key, fifteenPerDay, 5)
			require.NoError(t, err)
			require.Equal(t, []any{c.path, c.allowed}, []any{results[i].Path, results[i].Allowed})
			settled, err := l.Settle(ctx, &results[i], 0)
			require.NoError(t, err)
			require.Equal(t, results[i], settled)
		}
		if _, err = l.Settle(ctx, &results[0], c.allowed+2); c.rules != nil {
			require.ErrorContains(t, err, "NOPERM")
		}
		_, err = l.Settle(ctx, &results[0], c.allowed+2)
		require.ErrorIs(t, err, limiter.ErrSettled)
		require.NoError(t, admin.ACLSetUser(ctx, "app", "+@all").Err())
		_, err = l.Settle(ctx, &results[1], c.allowed+2)
		require.NoError(t, err)
		_, err = l.Settle(ctx, &full, 0)
		require.NoError(t, err)
		left, err := l.AllowN(ctx, key, fifteenPerDay, 15-c.after) // which the prefilter knows
		require.NoError(t, err)
		require.Equal(t, []int{15 - c.after, 0}, []int{left.Allowed, left.Remaining}, c.path)
	}
}
