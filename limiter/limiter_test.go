package limiter_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// AllowN takes all or nothing, AllowAtMost what fits, and Peek nothing.
func TestQuantities(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		type ask func(context.Context, string, limiter.Limit, int) (limiter.Result, error)
		peek := ask(func(ctx context.Context, key string, limit limiter.Limit, _ int) (limiter.Result, error) {
			return l.Peek(ctx, key, limit)
		})
		const never = limiter.NoRetry
		token := 24 * time.Hour / 15
		for i, c := range []struct {
			ask                          ask
			quantity, allowed, remaining int
			limited                      bool
			retryAfter                   time.Duration
		}{
			{peek, 0, 0, 15, false, never},
			{l.AllowN, 10, 10, 5, false, never},
			{l.AllowN, 6, 0, 5, true, token},
			{l.AllowN, 16, 0, 5, true, never},
			{peek, 0, 0, 5, false, never},
			{l.AllowAtMost, 10, 5, 0, false, never},
			{l.AllowAtMost, 10, 0, 0, true, token},
			{l.AllowAtMost, 100, 0, 0, true, token},
			{l.AllowAtMost, 0, 0, 0, true, never},
			{peek, 0, 0, 0, true, never},
		} {
			result, err := c.ask(ctx, "key", fifteenPerDay, c.quantity)
			require.NoError(t, err)
			require.InDelta(t, c.retryAfter, result.RetryAfter, float64(time.Minute), i)
			require.Equal(t, c.retryAfter == never, result.RetryAfter == never, i)
			require.Equal(t, c.limited, result.Limited(), i)
			require.InDelta(t, token*time.Duration(15-c.remaining), result.ResetAfter, float64(time.Minute), i)
			require.Equal(t, c.remaining == 15, result.ResetAfter == 0, i)
			result.RetryAfter, result.ResetAfter = 0, 0
			require.Equal(t, limiter.Result{Limit: fifteenPerDay, Path: path,
				Quantity: c.quantity, Allowed: c.allowed, Remaining: c.remaining}, result, i)
		}
		result, err := l.AllowAtMost(ctx, "another", fifteenPerDay, 100)
		require.NoError(t, err)
		require.Equal(t, 15, result.Allowed, "more than the capacity")
	})
}

// Calls by module and by script, of all kinds and by several clients, get exactly the
// capacity together.
func TestConcurrentCalls(t *testing.T) {
	ctx, limit := context.Background(), limiter.PerDay(1000)
	client := servertest.StartClient(t)
	l, filtered, script := limiter.New(client), limiter.New(client, limiter.WithPrefilter()), redis.NewScript(limiter.Script)
	var allowed [3]atomic.Int64
	var group sync.WaitGroup
	for i := range 15 {
		group.Go(func() {
			for call := range 100 {
				var result limiter.Result
				var err error
				switch i % 3 {
				case 0:
					result, err = filtered.Allow(ctx, "key", limit)
				case 1:
					result, err = l.AllowAtMost(ctx, "key", limit, call%5)
				case 2:
					var reply []any
					reply, err = script.Run(ctx, client, []string{"key"}, 1000, 1000, 24*60*60, 1).Slice()
					if err == nil && reply[0] == int64(0) {
						result.Allowed = 1
					}
				}
				if err != nil {
					t.Error(err)
				}
				allowed[i%3].Add(int64(result.Allowed))
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1000, allowed[0].Load()+allowed[1].Load()+allowed[2].Load())
	require.NotZero(t, allowed[0].Load()*allowed[1].Load()*allowed[2].Load())
}

func TestResetEmptiesTheFunnel(t *testing.T) {
	ctx, client := context.Background(), servertest.StartClient(t)
	l := limiter.New(client, limiter.WithPrefix("limits:"), limiter.WithPrefilter())
	for range 16 {
		allow(t, l, "key", fifteenPerDay)
	}
	require.Equal(t, []string{"limits:key"}, client.Keys(ctx, "*").Val())
	require.NoError(t, l.Reset(ctx, "key"))
	require.Empty(t, client.Keys(ctx, "*").Val())
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)

	// Without Redis, the funnels of this process.
	unreachable := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { unreachable.Close() })
	l = limiter.New(unreachable, limiter.OnFailure(limiter.FailLocal))
	allow(t, l, "key", fifteenPerDay)
	require.Error(t, l.Reset(ctx, "key"))
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)
}

// From a year's quota to a token per nanosecond, and numbers at the ends of the range.
// The script replies nanoseconds, the module whole seconds, rounded up.
func TestLimitsOfEverySize(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		l := limiter.New(client)
		for _, limit := range []limiter.Limit{
			limiter.Per(1000, 365*24*time.Hour),
			limiter.Per(1, time.Nanosecond).Burst(math.MaxInt64),
			limiter.Per(math.MaxInt64, math.MaxInt64),
			limiter.Per(7, 500*time.Millisecond).Burst(3),
			limiter.Per(1, 1234567890*time.Nanosecond),
			limiter.Per(1, 1000000001*time.Nanosecond),
			limiter.PerHour(1),
		} {
			result := allow(t, l, limit.String(), limit)
			require.False(t, result.Limited(), limit)
			require.InDelta(t, limit.Capacity()-1, result.Remaining, 1, limit)
			token := time.Duration(int64(limit.Period()) / int64(limit.Count()))
			if path == limiter.PathModule {
				token = (token + time.Second - 1).Truncate(time.Second)
			}
			require.Equal(t, token, result.ResetAfter, limit)
		}
		_, err := l.Allow(context.Background(), "key", limiter.Per(1, math.MaxInt64))
		require.ErrorContains(t, err, "before the year 2262")
	})
}

// Calls that are wrong are errors, to which no failure policy applies.
func TestWrongCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx := context.Background()
		l := limiter.New(client, limiter.OnFailure(limiter.FailOpen))
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.NoError(t, client.Set(ctx, "string", "abc", 0).Err())
		for _, c := range []struct {
			key      string
			limit    limiter.Limit
			quantity int
			want     string
		}{
			{"key", limiter.Limit{}, 1, gcra.ErrCapacity.Error()},
			{"key", limiter.PerMinute(-3).Burst(2), 1, "limiter: a limit of -3 per minute, burst 2: count must be at least 1"},
			{"key", limiter.Per(1, 0), 1, gcra.ErrPeriod.Error()},
			{"key", limiter.PerSecond(1e9 + 1), 1, gcra.ErrEmissionInterval.Error()},
			{"key", limiter.PerDay(1).Burst(math.MaxInt64), 1, gcra.ErrTolerance.Error()},
			{"key", limiter.PerMinute(30), -1, "limiter: quantity -1 of a limit of 30 per minute, burst 30: " + gcra.ErrQuantity.Error()},
			{"key", limiter.PerMinute(30), math.MaxInt64, gcra.ErrIncrement.Error()},
			{"list", fifteenPerDay, 1, "WRONGTYPE"},
			{"string", fifteenPerDay, 1, "ERR the key does not hold a funnel"},
		} {
			result, err := l.AllowN(ctx, c.key, c.limit, c.quantity)
			require.ErrorContains(t, err, c.want, "%+v", c)
			require.True(t, result.Limited(), "%+v", c)
		}
		require.Equal(t, "abc", client.Get(ctx, "string").Val())
		require.Zero(t, client.Exists(ctx, "key").Val())
	})
}

// Each request has its own answer, and all together take one round trip.
func TestAllowMany(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.Background()
		var sent []string
		counted := redis.NewClient(&redis.Options{PoolSize: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
			connection, err := net.Dial("tcp", client.Options().Addr)
			return recordingConnection{connection, &sent}, err
		}})
		t.Cleanup(func() { counted.Close() })
		l := limiter.New(counted)
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		// The first calls find the mode, and go-redis what the server knows.
		_, err := l.AllowMany(ctx, []limiter.Request{{"c", fifteenPerDay, 1}, {"c", fifteenPerDay, 1}})
		require.NoError(t, err)
		sent = nil
		results, err := l.AllowMany(ctx, []limiter.Request{
			{"a", fifteenPerDay, 10}, {"a", fifteenPerDay, 10}, {"list", fifteenPerDay, 1},
			{"b", limiter.Limit{}, 1}, {"a", fifteenPerDay, 0}, {"b", fifteenPerDay, 15},
		})
		require.Len(t, sent, 1)
		require.Contains(t, sent[0], "\r\n86400\r\n", "redis-cell takes no fractions of seconds")
		require.NotContains(t, sent[0], "redis.call", "the hash of the script, not its text")
		var got []string
		for _, result := range results {
			got = append(got, fmt.Sprint(result.Allowed, " ", result.Remaining, " ", result.Path))
		}
		by := " " + string(path)
		require.Equal(t, []string{"10 5" + by, "0 5" + by, "0 0 ", "0 0 ", "0 5" + by, "15 0" + by}, got)
		require.ErrorContains(t, err, `request 2, key "list": WRONGTYPE`)
		require.ErrorContains(t, err, `request 3, key "b": limiter: a limit of 0 per 0s, burst 0: capacity must be at least 1`)
		require.ErrorIs(t, err, gcra.ErrCapacity)
		var requestError *limiter.RequestError
		require.ErrorAs(t, err, &requestError)
		require.Equal(t, 2, requestError.Index)
		results, err = l.AllowMany(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// A recordingConnection keeps what is written: each round trip begins with that.
type recordingConnection struct {
	net.Conn
	sent *[]string
}

func (c recordingConnection) Write(text []byte) (int, error) {
	*c.sent = append(*c.sent, string(text))
	return c.Conn.Write(text)
}
