package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// An outcome is what one call replies and leaves in its key.
type outcome struct {
	reply  []any
	err    string
	value  string
	expiry time.Duration // since the epoch; or -1 for none, -2 for no key
}

// batch makes calls in one pipeline, each on a key of its own, and returns their
// outcomes. Prepare stores what the key holds.
func batch(t *testing.T, client *redis.Client, calls int, prepare func(pipe redis.Pipeliner, key string, i int), call func(pipe redis.Pipeliner, key string, i int) *redis.Cmd) []outcome {
	t.Helper()
	ctx := context.Background()
	replies, values := make([]*redis.Cmd, calls), make([]*redis.StringCmd, calls)
	expiries, outcomes := make([]*redis.DurationCmd, calls), make([]outcome, calls)
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.FlushAll(ctx)
		for i := range calls {
			key := strconv.Itoa(i)
			prepare(pipe, key, i)
			replies[i], values[i], expiries[i] = call(pipe, key, i), pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
		}
		return nil
	})
	var reply redis.Error
	require.True(t, err == nil || errors.As(err, &reply), err)
	for i := range outcomes {
		outcomes[i] = outcome{value: values[i].Val(), expiry: expiries[i].Val()}
		if err := replies[i].Err(); err == nil {
			outcomes[i].reply = replies[i].Val().([]any)
		} else if !errors.Is(err, redis.Nil) {
			outcomes[i].err = err.Error()
		}
	}
	return outcomes
}

// A scriptCall is one call of the script with a given time, on a key that holds a
// TAT or, if that is negative, nothing.
type scriptCall struct {
	capacity, count, period, quantity int64
	now, tat                          int64
}

// The script decides, replies and stores what package gcra says, to the nanosecond,
// over the whole range of 63 bits: as a whole, and its second part alone. Its first part
// does so, too, or leaves the call to the second one.
func TestScriptAgreesWithTheArithmetic(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	part := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	client := bare(t).Client(t)
	rounds := servertest.QuickOrLong(40, 2000)
	for _, c := range []struct{ name, script, kinds string }{
		{"whole", limiter.Script, "allowed limited never error"},
		{"exact part", part("throttle_exact.lua"), "allowed limited never error"},
		{"short part", part("throttle_short.lua"), "allowed limited never left"},
	} {
		kinds := map[string]int{}
		hash, err := client.ScriptLoad(context.Background(), c.script).Result()
		require.NoError(t, err)
		for range rounds {
			calls := make([]scriptCall, 500)
			got := batch(t, client, len(calls), func(pipe redis.Pipeliner, key string, i int) {
				if calls[i] = randomCall(random); calls[i].tat >= 0 {
					pipe.Set(context.Background(), key, calls[i].tat, 0)
				}
			}, func(pipe redis.Pipeliner, key string, i int) *redis.Cmd {
				c := calls[i]
				return pipe.EvalSha(context.Background(), hash, []string{key}, c.capacity, c.count, seconds(c.period), c.quantity, c.now)
			})
			wallClock := time.Now()
			for i, call := range calls {
				want, kind := call.expect(wallClock)
				if got[i].reply == nil && got[i].err == "" {
					want, kind = call.untouched(), "left"
				}
				if fmt.Sprint(got[i]) != fmt.Sprint(want) { // require is slow
					require.Equal(t, want, got[i], "%s: %+v at %v", c.name, call, wallClock)
				}
				kinds[kind]++
			}
		}
		t.Log(c.name, kinds)
		for _, kind := range strings.Fields(c.kinds) {
			require.Greater(t, kinds[kind], rounds*4, "%s: %s", c.name, kind)
			delete(kinds, kind)
		}
		require.Empty(t, kinds, c.name)
	}
}

// untouched is the outcome of a call that replies and changes nothing.
func (c scriptCall) untouched() outcome {
	if c.tat < 0 {
		return outcome{expiry: -2}
	}
	return outcome{value: strconv.FormatInt(c.tat, 10), expiry: -1}
}

// expect is the outcome of the call by package gcra, and its kind. A server removes a
// key that it is told to expire before its own time.
func (c scriptCall) expect(wallClock time.Time) (want outcome, kind string) {
	want = c.untouched()
	rate, err := gcra.NewRate(c.capacity, c.count, c.period)
	var decision gcra.Decision
	if err == nil {
		decision, err = rate.Decide(max(c.tat, 0), c.now, c.quantity)
	}
	if err != nil {
		want.err = fmt.Sprintf("ERR %v, not capacity %d, count %d, period %s, quantity %d",
			err, c.capacity, c.count, seconds(c.period), c.quantity)
		return want, "error"
	}
	limited := 0
	switch {
	case decision.Limited && decision.RetryAfter() == gcra.Never:
		limited, kind = 1, "never"
	case decision.Limited:
		limited, kind = 1, "limited"
	default:
		kind = "allowed"
		if expiry := gcra.Milliseconds(decision.TAT); c.quantity > 0 && expiry > wallClock.UnixMilli() {
			want = outcome{value: strconv.FormatInt(decision.TAT, 10), expiry: time.Duration(expiry) * time.Millisecond}
		} else if c.quantity > 0 {
			want = outcome{expiry: -2}
		}
	}
	want.reply = []any{
		limited, decision.Limit, decision.Remaining,
		gcra.Seconds(decision.RetryAfter()), gcra.Seconds(decision.ResetAfter),
		decision.RetryAfter(), decision.ResetAfter,
	}
	return want, kind
}

// randomCall draws numbers of every size, mostly such that funnels exist, and TATs
// where decisions change.
func randomCall(random *rand.Rand) scriptCall {
	c := scriptCall{
		capacity: randomNumber(random, math.MaxInt64),
		count:    randomNumber(random, math.MaxInt64),
		period:   randomNumber(random, math.MaxInt64),
		quantity: randomNumber(random, math.MaxInt64),
		now:      randomNumber(random, math.MaxInt64),
		tat:      randomNumber(random, math.MaxInt64),
	}
	if random.IntN(20) == 0 {
		return c
	}
	short := random.IntN(2) == 0 // for the short part of the script, or a little beyond it
	most := int64(math.MaxInt64)
	if short {
		c.period = min(randomNumber(random, 2_000_000), 1_000_000) * 1e9
		most = 1_000_000_001
	}
	c.count = randomNumber(random, min(most, c.period))
	interval := c.period / c.count
	c.capacity = randomNumber(random, min(most, math.MaxInt64/interval))
	if short || random.IntN(2) == 0 { // a tolerance of around 2^53 nanoseconds at most
		c.capacity = randomNumber(random, min(most, max(1, 1<<54/interval)))
	}
	tolerance := interval * c.capacity
	c.quantity = randomNumber(random, c.capacity)
	switch random.IntN(10) {
	case 0:
		c.quantity = 0
	case 1:
		c.quantity = min(c.capacity, math.MaxInt64-1) + 1
	}
	if short || random.IntN(2) == 0 { // our times
		c.now = time.Date(2027+random.IntN(30), 1, 1, 0, 0, 0, random.IntN(1e9), time.UTC).UnixNano()
	}
	if random.IntN(4) == 0 {
		c.tat = -1
		return c
	}
	level := tolerance - min(interval*min(c.quantity, c.capacity), tolerance)
	switch random.IntN(4) {
	case 0: // to the nanosecond at which it fits, or not
		level += int64(random.IntN(5) - 2)
	case 1:
		level = random.Int64N(max(tolerance, 1))
	case 2:
		level += randomNumber(random, math.MaxInt64)
	}
	c.tat = max(0, int64(min(uint64(c.now)+uint64(max(level, 0)), math.MaxInt64)))
	return c
}

// randomNumber draws a number from 1 to most, of any number of bits, or one around a
// power of 2 or 10.
func randomNumber(random *rand.Rand, most int64) int64 {
	size := bits.Len64(uint64(most))
	number := random.Int64N(most) >> random.IntN(size)
	switch random.IntN(6) {
	case 0:
		number = 1<<random.IntN(size) + int64(random.IntN(5)) - 2
	case 1:
		number = int64(math.Pow10(random.IntN(size*18/63+1))) + int64(random.IntN(5)) - 2
	case 2:
		number = int64(random.IntN(100))
	}
	return max(1, min(number, most))
}

// seconds writes nanoseconds as CL.THROTTLE takes a period.
func seconds(nanoseconds int64) string {
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Module and script read arguments and keys alike, reply the same errors, and each
// continues from what the other has stored.
func TestScriptRepliesWhatTheModuleReplies(t *testing.T) {
	ctx := context.Background()
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	now := servertest.Epoch.UnixNano()
	arguments := []string{
		"1", "15", "30", "60", "0", "-1", "+1", "01", "00", "", " 1", "1 ", "1x", "x", "0x10", "1e3", "1.0", ".5", "0.5",
		"5.", "0.", ".", "..", "1.2.3", "0.000000001", "0.0000000001", "0.1234567890", "1.999999999", "-0.5", "nan", "inf",
		"9223372036854775807", "9223372036854775808", "9999999999999999999", "10000000000000000000",
		"9223372036", "9223372036.854775807", "9223372036.854775808", "9223372037", "09223372036.8", "99999999999",
		"9007199254740992", "9007199254740993", "1000000", "999999", "123456789012345", "1234567890123456",
		"\x00", "1\x00", "a\r\nb", "%d", "\xff", strings.Repeat("7", 40), strings.Repeat("x", 41), strings.Repeat("\n", 100),
	}
	stored := []string{
		"", "0", strconv.FormatInt(now, 10), strconv.FormatInt(now+30e9, 10), strconv.FormatInt(now+28e9, 10),
		strconv.FormatInt(now+28e9+1, 10), "9223372036854775807", "9223372036854775808", "-1", "+1", "01", "1.5", "abc", "list", "none",
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	count := servertest.QuickOrLong(10_000, 200_000)
	calls, values := make([][]any, count), make([]string, count)
	for i := range calls {
		calls[i], values[i] = []any{"15", "30", "60", "1"}[:4-random.IntN(5)/4], stored[random.IntN(len(stored))]
		for range random.IntN(3) {
			calls[i][random.IntN(len(calls[i]))] = arguments[random.IntN(len(arguments))]
		}
	}
	prepare := func(pipe redis.Pipeliner, key string, i int) {
		switch values[i] {
		case "none":
		case "list":
			pipe.LPush(ctx, key, "element")
		default:
			pipe.Set(ctx, key, values[i], 0)
		}
	}
	byModule := batch(t, client, len(calls), prepare, func(pipe redis.Pipeliner, key string, i int) *redis.Cmd {
		return pipe.Do(ctx, append([]any{"cl.throttle", key}, calls[i]...)...)
	})
	byScript := batch(t, client, len(calls), prepare, func(pipe redis.Pipeliner, key string, i int) *redis.Cmd {
		// With the quantity in its place, the time is the fifth.
		timed := append(append([]any{}, calls[i]...), "1")[:4]
		return pipe.Eval(ctx, limiter.Script, []string{key}, append(timed, now)...)
	})
	kinds := map[string]int{}
	for i := range calls {
		if byScript[i].reply != nil {
			byScript[i].reply = byScript[i].reply[:5]
		}
		if fmt.Sprint(byModule[i]) != fmt.Sprint(byScript[i]) { // require is slow
			require.Equal(t, byModule[i], byScript[i], "%q on a key with %q", calls[i], values[i])
		}
		kind, _, _ := strings.Cut(byModule[i].err, " must")
		kind, _, _ = strings.Cut(kind, ",")
		kinds[kind]++
	}
	t.Log(kinds)
	require.Greater(t, len(kinds), 8)
	require.Greater(t, kinds[""], len(calls)/10, "without an error")
}

func TestScriptChecksTheNumberOfArguments(t *testing.T) {
	client := bare(t).Client(t)
	for _, c := range [][]any{{0, 15, 30, 60}, {2, "a", "b", 15, 30, 60}, {1, "a", 15, 30}, {1, "a", 15, 30, 60, 1, 1, 1}} {
		err := client.Do(context.Background(), append([]any{"eval", limiter.Script}, c...)...).Err()
		require.ErrorContains(t, err, "ERR the script takes 1 key and capacity, count, period, quantity", "%v", c)
	}
}

// The AOF, and so replicas, get the SET that the script performs, as they do from
// the module, and nothing for limited calls and peeks.
func TestScriptReplicatesItsEffect(t *testing.T) {
	ctx, limit := context.Background(), limiter.PerDay(2)
	server := bare(t, "--appendonly", "yes", "--appendfsync", "always")
	client := server.Client(t)
	l := limiter.New(client)
	_, err := l.Peek(ctx, "key", limit)
	require.NoError(t, err)
	want := [][]string{{"SELECT", "0"}}
	for range 4 {
		if !allow(t, l, "key", limit).Limited() {
			want = append(want, []string{"SET", "key", client.Get(ctx, "key").Val(),
				"PXAT", fmt.Sprint(servertest.ExpiryOf(t, client, "key"))})
		}
	}
	require.Len(t, want, 3)
	require.Equal(t, want, servertest.ReadAppendOnlyFile(t, server))
}
