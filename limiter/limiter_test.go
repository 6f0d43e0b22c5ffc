// Each method takes the right number of tokens, by module, by script and in this process. Wrong
// calls are errors, and wrong options panic. Hooks get calls and errors. A decision costs few
// allocations.

package limiter_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

func TestQuantities(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		testQuantities(t, source, func(options ...limiter.Option) *limiter.Limiter { return limiter.New(client, options...) })
	})
}

func TestQuantitiesInThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testQuantities(t, limiter.FromLocal, limiter.NewLocal) })
}

// testQuantities tells the story of one funnel, call by call. Hooks get each decision before its
// caller does, in the order of the options.
func testQuantities(t *testing.T, source limiter.Source, make func(...limiter.Option) *limiter.Limiter) {
	const token, never = 96 * time.Minute, limiter.NoRetry
	var recorded recorder
	second := func(_ context.Context, event limiter.Event) { require.Equal(t, recorded.last(), event) }
	l := make(limiter.WithPrefix("limits:"), limiter.WithHook(recorded.hook), limiter.WithHook(second))
	for _, c := range []struct {
		name               string
		command            string
		quantity           int
		want               string        // allowed, remaining, and whether it is limited
		wait, retry, reset time.Duration // in tokens
	}{
		{"peek at an empty funnel", "peek", 1, "0 15 false", 0, 0, 0},
		{"refund to an empty funnel", "refund", 3, "3 15 false", 0, 0, 0},
		{"allow", "reserve", 10, "10 5 false", 0, 0, 10},
		{"allow one too many", "reserve", 6, "0 5 true", 0, 1, 10},
		{"allow more than ever fit", "reserve", 16, "0 5 true", 0, never, 10},
		{"at most, in part", "take", 100, "5 0 false", 0, 0, 15},
		{"at most, of a full funnel", "take", 100, "0 0 true", 0, 1, 15},
		{"at most none", "take", 0, "0 0 false", 0, 0, 15},
		{"peek when none fits", "peek", 1, "0 0 true", 0, 1, 15},
		{"reserve for later", "reserve", 2, "2 0 false", 2, 0, 17},
		{"reserve for too late", "reserve", 2, "0 0 true", 0, 1, 17},
		{"reserve for the last moment", "reserve", 1, "1 0 false", 3, 0, 18},
		{"refund to an overfull funnel", "refund", 2, "2 0 false", 0, 1, 16},
		{"refund until some fit", "refund", 4, "4 3 false", 0, 0, 12},
		{"reserve at once", "reserve", 2, "2 1 false", 0, 0, 14},
		{"charge beyond the capacity", "charge", 20, "20 0 false", 0, 19, 34},
		{"refund, and stay overfull", "refund", 17, "17 0 false", 0, 2, 17},
		{"reserve none", "reserve", 0, "0 0 false", 0, 0, 17},
		{"refund more than it holds", "refund", 100, "100 15 false", 0, 0, 0},
		{"charge", "charge", 1, "1 14 false", 0, 0, 1},
	} {
		ask := methods[c.command]
		if strings.HasPrefix(c.name, "reserve") {
			ask = func(l *limiter.Limiter, key string, quantity int) (limiter.Result, error) {
				return l.Reserve(context.Background(), key, fifteenPerDay, quantity, 3*token)
			}
		}
		result, err := ask(l, "key", c.quantity)
		state := fmt.Sprintf("%s: %s of %d: %+v", c.name, c.command, c.quantity, result)
		require.NoError(t, err, state)
		require.Equal(t, c.want, fmt.Sprint(result.Allowed, result.Remaining, result.Limited()), state)
		for _, times := range [][2]time.Duration{
			{c.wait, result.Wait}, {c.retry, result.RetryAfter}, {c.reset, result.ResetAfter},
		} {
			want := times[0] * token
			if times[0] == never {
				want = never
			}
			require.InDelta(t, want, times[1], float64(time.Minute), state)
			require.Equal(t, want == never, times[1] == never, state)
		}
		want := limiter.Result{Key: "key", Limit: fifteenPerDay, Quantity: c.quantity, Source: source}
		got := limiter.Result{Key: result.Key, Limit: result.Limit, Quantity: result.Quantity, Source: result.Source}
		require.Equal(t, want, got, state)
		require.Equal(t, result.Allowed > 0 && !strings.HasPrefix(c.name, "refund"), result.Receipt > 0, state)

		event := recorded.last()
		isBubble := source == limiter.FromLocal // whose clock stands still
		require.Equal(t, !isBubble, event.Duration > 0, state)
		event.Duration = 0
		require.Equal(t, limiter.Event{Command: c.command, Key: "limits:key", Result: result, Limited: result.Limited()},
			event, state)
	}
}

func TestResetEmptiesTheFunnel(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), connect(t, limiter.FromModule)
	l := limiter.New(client, limiter.WithPrefix("limits:"))
	allow(t, l, "key", fifteenPerDay)
	require.Equal(t, []string{"limits:key"}, client.Keys(ctx, "*").Val())
	require.NoError(t, l.Reset(ctx, "key"))
	require.Empty(t, client.Keys(ctx, "*").Val())
	require.ErrorIs(t, limiter.New(client, limiter.WithTimeout(1)).Reset(ctx, "key"), context.DeadlineExceeded)

	// Without Redis, the funnels of this process.
	l = limiter.New(unreachable(t), limiter.OnFailure(limiter.FailLocal))
	allow(t, l, "key", fifteenPerDay)
	require.Error(t, l.Reset(ctx, "key"))
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, limiter.NewLocal().Reset(canceled, "key"), context.Canceled)
}

// No failure policy applies to calls that are wrong.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, _ limiter.Source) {
		var recorded recorder
		ctx, l := context.Background(), limiter.New(client, limiter.OnFailure(limiter.FailOpen),
			limiter.WithHook(recorded.hook))
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.NoError(t, client.Set(ctx, "string", "abc", 0).Err())
		for _, c := range []struct {
			name, key string
			limit     limiter.Limit
			quantity  int
			want      string
		}{
			{"no limit", "key", limiter.Limit{}, 1, gcra.ErrCount.Error()},
			{"count", "key", limiter.PerHour(-3).WithCapacity(2), 1,
				`key "key": a limit of -3 per hour, capacity 2: count must be at least 1`},
			{"quantity", "key", perDay(3), -1, `key "key": quantity -1 of a limit of 3 per day, capacity 3: quantity must`},
			{"key of another type", "list", fifteenPerDay, 1, "WRONGTYPE"},
			{"other value", "string", fifteenPerDay, 1, `limiter: key "string": INVALID the key does not hold a funnel`},
		} {
			result, err := l.AllowN(ctx, c.key, c.limit, c.quantity)
			require.ErrorContains(t, err, c.want, c.name)
			require.Equal(t, limiter.Result{Key: c.key, Limit: c.limit, Quantity: c.quantity}, result, c.name)
			require.True(t, result.Limited(), c.name)
			event := recorded.last()
			require.Equal(t, []any{result, err, err}, []any{event.Result, event.Err, event.Cause}, c.name)
		}
		require.Equal(t, "abc", client.Get(ctx, "string").Val())
		require.Zero(t, client.Exists(ctx, "key").Val())
	})
}

// A call allocates little beyond what go-redis allocates for the same command, under a context that
// ends with the same time-out: the call and its result, the context without the caller's deadline,
// and the note that the command was written.
func TestAllocations(t *testing.T) {
	client := shared(t, limiter.FromModule).Client(t, func(options *redis.Options) {
		options.ContextTimeoutEnabled = true
	})
	count := func(call func(ctx context.Context) error) float64 {
		least := math.Inf(1) // of several runs: clients of other tests may still dial in the background
		for range 20 {
			least = min(least, testing.AllocsPerRun(50, func() { require.NoError(t, call(context.Background())) }))
		}
		return least
	}
	byGoRedis := count(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return client.Do(ctx, "cl.reserve", "by go-redis", 100_000, 100_000, "86400", 1).Err()
	})
	for _, c := range []struct {
		name        string
		source      limiter.Source
		cancellable bool
		more        float64 // than by go-redis
	}{
		{"the module", limiter.FromModule, false, 4},
		{"the module, for a caller that may give up", limiter.FromModule, true, 7},
		{"the script", limiter.FromScript, false, -4}, // whose reply is a number
	} {
		l := limiter.New(client, limiter.WithSource(c.source))
		byLimiter := count(func(ctx context.Context) error {
			cancel := context.CancelFunc(func() {})
			if c.cancellable {
				ctx, cancel = context.WithCancel(ctx)
			}
			defer cancel()
			_, err := l.Allow(ctx, c.name, perDay(100_000))
			return err
		})
		require.LessOrEqual(t, byLimiter, byGoRedis+c.more, "allocations by %s; go-redis: %v", c.name, byGoRedis)
	}
}

func TestNewPanics(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	const policies = "OnFailure needs one of the constants, not "
	for want, make := range map[string]func(){
		"New needs a client of Redis, not nil":                   func() { limiter.New(nil) },
		"New needs a client of Redis, not nil ":                  func() { limiter.New((*redis.Client)(nil)) },
		"WithLogger needs a logger, not nil":                     func() { limiter.New(rdb, limiter.WithLogger(nil)) },
		"WithHook needs a hook, not nil":                         func() { limiter.New(rdb, limiter.WithHook(nil)) },
		policies + "FailurePolicy(17)":                           func() { limiter.New(rdb, limiter.OnFailure(17)) },
		policies + "FailurePolicy(-1)":                           func() { limiter.NewLocal(limiter.OnFailure(-1)) },
		`WithSource needs FromModule or FromScript, not "local"`: func() { limiter.NewLocal(limiter.WithSource("local")) },
	} {
		require.PanicsWithValue(t, "limiter: "+strings.TrimSpace(want), make)
	}
}
