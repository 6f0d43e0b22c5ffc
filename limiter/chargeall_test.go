// Several limits are charged by one call, and several Results are settled by one. What is used
// beyond a limit shows.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestChargeAll(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, direct *redis.Client, source limiter.Source) {
		client := &counting{Client: direct}
		l, quota := limiter.New(client, limiter.WithSource(source)), limiter.Until(1000, time.Now().Add(time.Hour))
		_, err := l.Peek(t.Context(), "{a}x", fifteenPerDay)
		require.NoError(t, err)
		_, err = l.ChargeAll(t.Context(), limiter.Request{Key: "{a}x", Limit: quota, Quantity: 1}) // the script is known
		require.NoError(t, err)
		for _, step := range []struct {
			funnel, quota int
			want          string // of each row: whether it limits, what was charged, what remains
			overdrawn     []bool
		}{
			{10, 600, "ok 10 5, ok 600 400", []bool{false, false}},
			{0, 400, "ok 0 5, ok 400 0", []bool{false, false}},
			{6, 500, "ok 6 0, ok 500 0", []bool{true, true}},
			{0, 0, "ok 0 0, ok 0 0", []bool{true, false}}, // to charge nothing of a quota is never too much
		} {
			client.trips.Store(0)
			results, err := l.ChargeAll(t.Context(),
				limiter.Request{Key: "{a}funnel", Limit: fifteenPerDay, Quantity: step.funnel},
				limiter.Request{Key: "{a}quota", Limit: quota, Quantity: step.quota})
			state := fmt.Sprintf("%+v: %+v", step, results)
			require.NoError(t, err, state)
			require.EqualValues(t, 1, client.trips.Load(), "%s: one command", state)
			require.Equal(t, step.want, describe(results...), state)
			for i, result := range results {
				require.Equal(t, step.overdrawn[i], result.Overdrawn, state)
				require.Equal(t, step.overdrawn[i], result.RetryAfter > 0, state)
			}
		}
	})
}

func TestWrongChargeAll(t *testing.T) {
	t.Parallel()
	l, request := limiter.NewLocal(), limiter.Request{Key: "key", Limit: fifteenPerDay, Quantity: 1}
	for want, requests := range map[string][]limiter.Request{
		"a call must have 1 to 64 rows, not 0":  nil,
		"a call must have 1 to 64 rows, not 65": make([]limiter.Request, 65),
		`key "key" is named twice`:              {request, request},
		"quantity -1 of a limit":                {{Key: "key", Limit: fifteenPerDay, Quantity: -1}},
	} {
		_, err := l.ChargeAll(t.Context(), requests...)
		require.ErrorIs(t, err, limiter.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}

// If a node fails, what the others charged stays, and the error names what was not charged.
func TestChargeAllWithoutANode(t *testing.T) {
	t.Parallel()
	allowed := []any{int64(0), "0", []any{[]any{int64(0), int64(15), int64(14), "0", "5760", "41"}}}
	l := limiter.New(spreadClient{func(command redis.Cmder) error {
		if strings.Contains(fmt.Sprintln(command.Args()...), "{dead}") {
			return errors.New("no route to host")
		}
		answer(command, allowed)
		return nil
	}}, limiter.WithSource(limiter.FromModule))
	request := func(key string) limiter.Request { return limiter.Request{Key: key, Limit: fifteenPerDay, Quantity: 1} }
	results, err := l.ChargeAll(t.Context(), request("{a}1"), request("{dead}2"), request("{b}3"), request("{dead}4"))
	require.ErrorIs(t, err, limiter.ErrUnavailable)
	require.EqualError(t, err, `limiter: keys ["{dead}2" "{dead}4"]: no route to host`)
	require.Equal(t, "ok 1 14, limited 0 0, ok 1 14, limited 0 0", describe(results...))
	require.Equal(t, limiter.Result{Key: "{dead}2", Limit: fifteenPerDay, Quantity: 1}, results[1])
}

func TestSettleAll(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		l, quota := limiter.New(client, limiter.WithSource(source)), limiter.Until(1000, time.Now().Add(time.Hour))
		results, err := l.AllowAll(t.Context(),
			limiter.Request{Key: "{a}funnel", Limit: fifteenPerDay, Quantity: 5},
			limiter.Request{Key: "{a}quota", Limit: quota, Quantity: 100},
			limiter.Request{Key: "{a}as taken", Limit: quota, Quantity: 7})
		require.NoError(t, err)
		after, err := l.SettleAll(t.Context(), results, []int{2, 1500, 7})
		require.NoError(t, err)
		require.Equal(t, "ok 3 13, ok 1400 0, ok 7 993", describe(after...), "given back; charged; nothing to do")
		require.Equal(t, []bool{false, true, false}, []bool{after[0].Overdrawn, after[1].Overdrawn, after[2].Overdrawn})
		for i, used := range []int{2, 1500, 7} {
			require.Equal(t, used, results[i].Allowed, "it is settled once")
		}
		again, err := l.SettleAll(t.Context(), results, []int{2, 1500, 7})
		require.NoError(t, err)
		require.Equal(t, results, again, "nothing is left to do")
	})
}

func TestWrongSettleAll(t *testing.T) {
	t.Parallel()
	l := limiter.NewLocal()
	const text = "limiter: SettleAll needs 1 to 64 Results, and a number of used tokens for each: " +
		"got %d Results and %d numbers"
	for _, c := range [][2]int{{0, 0}, {1, 0}, {2, 3}, {65, 65}} {
		after, err := l.SettleAll(t.Context(), make(limiter.Results, c[0]), make([]int, c[1]))
		require.ErrorIs(t, err, limiter.ErrInvalid)
		require.EqualError(t, err, fmt.Sprintf(text, c[0], c[1]))
		require.Len(t, after, c[0])
	}
	results := limiter.Results{allow(t, l, "a", fifteenPerDay), allow(t, l, "b", fifteenPerDay)}
	after, err := l.SettleAll(context.Background(), results, []int{-1, 0})
	require.ErrorIs(t, err, limiter.ErrInvalid)
	require.ErrorContains(t, err, `key "a": the number of used tokens must be at least 0, not -1`)
	require.Equal(t, 15, after[1].Remaining, "the other is settled")
	require.Equal(t, []int{1, 0}, []int{results[0].Allowed, results[1].Allowed})
}
