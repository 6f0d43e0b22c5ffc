package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// scriptCases is how many random calls the script is compared in; FUNNEL_LONG makes
// it a million.
func scriptCases() int {
	if os.Getenv("FUNNEL_LONG") != "" {
		return 1_000_000
	}
	return 50_000
}

// A scriptCall is one call of the script with a given time, on a key that holds a
// TAT or, if that is negative, nothing.
type scriptCall struct {
	capacity, count, period, quantity int64
	now, tat                          int64
}

func (c scriptCall) arguments() []any {
	return []any{c.capacity, c.count, seconds(c.period), c.quantity, c.now}
}

// The script decides, replies and stores what package gcra says, to the nanosecond,
// over the whole range of 63 bits.
func TestScriptAgreesWithTheArithmetic(t *testing.T) {
	outcomes := compareScript(t, limiter.Script, scriptCases())
	for _, kind := range []string{"allowed", "limited", "never", "error"} {
		require.Greater(t, outcomes[kind], scriptCases()/50, kind)
	}
	require.Zero(t, outcomes["left to the next part"])
}

// The second part of the script decides every call without the first.
func TestExactPartAgreesWithTheArithmetic(t *testing.T) {
	outcomes := compareScript(t, readPart(t, "throttle_exact.lua"), scriptCases()/2)
	require.Zero(t, outcomes["left to the next part"])
}

// The first part of the script decides right or not at all, without an error.
func TestShortPartAgreesWithTheArithmetic(t *testing.T) {
	outcomes := compareScript(t, readPart(t, "throttle_short.lua"), scriptCases()/2)
	for _, kind := range []string{"allowed", "limited", "never", "left to the next part"} {
		require.Greater(t, outcomes[kind], scriptCases()/100, kind)
	}
	require.Zero(t, outcomes["error"])
}

func readPart(t *testing.T, name string) string {
	t.Helper()
	part, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, limiter.Script, string(part))
	return string(part)
}

// compareScript compares a script with package gcra in random calls, and returns how
// many had which outcome.
func compareScript(t *testing.T, script string, cases int) (outcomes map[string]int) {
	t.Helper()
	const batch = 500
	ctx := context.Background()
	client := servertest.Start(t, servertest.Options{}).Client(t)
	hash, err := client.ScriptLoad(ctx, script).Result()
	require.NoError(t, err)

	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	outcomes = map[string]int{}
	for done := 0; done < cases; done += batch {
		calls := make([]scriptCall, batch)
		replies := make([]*redis.Cmd, batch)
		values := make([]*redis.StringCmd, batch)
		expiries := make([]*redis.DurationCmd, batch)
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range calls {
				calls[i] = randomCall(random)
				key := strconv.Itoa(i)
				if calls[i].tat >= 0 {
					pipe.Set(ctx, key, calls[i].tat, 0)
				}
				replies[i] = pipe.EvalSha(ctx, hash, []string{key}, calls[i].arguments()...)
				values[i] = pipe.Get(ctx, key)
				expiries[i] = pipe.PExpireTime(ctx, key)
			}
			pipe.FlushAll(ctx)
			return nil
		})
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) {
			t.Fatal(err)
		}
		wallClock := time.Now().UnixNano()
		for i, call := range calls {
			want := call.expect(wallClock)
			got := scriptOutcome{value: values[i].Val(), expiry: expiries[i].Val()}
			switch err := replies[i].Err(); {
			case errors.Is(err, redis.Nil):
				want = call.untouched()
			case err != nil:
				got.err = err.Error()
			default:
				got.reply = replies[i].Val().([]any)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%+v on a server at %d:\ngot  %+v\nwant %+v", call, wallClock, got, want)
			}
			outcomes[want.kind()]++
		}
	}
	t.Logf("%d calls: %v", cases, outcomes)
	return outcomes
}

// A scriptOutcome is what one call replies and leaves in its key.
type scriptOutcome struct {
	reply  []any
	err    string
	value  string
	expiry time.Duration // since the epoch; or -1 for none, -2 for no key
}

func (o scriptOutcome) kind() string {
	switch {
	case o.err != "":
		return "error"
	case o.reply == nil:
		return "left to the next part"
	case fmt.Sprint(o.reply[0]) == "0":
		return "allowed"
	case fmt.Sprint(o.reply[3]) == "-1":
		return "never"
	default:
		return "limited"
	}
}

// untouched is the outcome of a call that replies and changes nothing.
func (c scriptCall) untouched() scriptOutcome {
	if c.tat < 0 {
		return scriptOutcome{expiry: -2}
	}
	return scriptOutcome{value: strconv.FormatInt(c.tat, 10), expiry: -1}
}

// expect is the outcome of the call by package gcra. A server removes a key that it
// is told to expire before its own time.
func (c scriptCall) expect(wallClock int64) scriptOutcome {
	stored := c.untouched()
	rate, err := gcra.NewRate(c.capacity, c.count, c.period)
	var decision gcra.Decision
	if err == nil {
		decision, err = rate.Decide(max(c.tat, 0), c.now, c.quantity)
	}
	if err != nil {
		stored.err = fmt.Sprintf("ERR %v, not capacity %d, count %d, period %s, quantity %d",
			err, c.capacity, c.count, seconds(c.period), c.quantity)
		return stored
	}
	limited := 0
	if decision.Limited {
		limited = 1
	} else if c.quantity > 0 {
		expiry := gcra.Milliseconds(decision.TAT)
		stored = scriptOutcome{expiry: -2}
		if expiry > wallClock/1e6 {
			stored = scriptOutcome{value: strconv.FormatInt(decision.TAT, 10), expiry: time.Duration(expiry) * time.Millisecond}
		}
	}
	stored.reply = []any{
		limited, decision.Limit, decision.Remaining,
		gcra.Seconds(decision.RetryAfter()), gcra.Seconds(decision.ResetAfter),
		decision.RetryAfter(), decision.ResetAfter,
	}
	return stored
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
	client := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	now := time.Date(2100, 1, 1, 0, 0, 0, 123456789, time.UTC).UnixNano()

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
	outcomes := map[string]int{}
	for range scriptCases() / 5 {
		call := []any{"15", "30", "60", "1"}
		if random.IntN(5) == 0 {
			call = call[:3]
		}
		for range random.IntN(3) {
			call[random.IntN(len(call))] = arguments[random.IntN(len(arguments))]
		}
		value := stored[random.IntN(len(stored))]
		now := now + random.Int64N(3)

		var replies [2]*redis.Cmd
		var values [2]*redis.StringCmd
		var expiries [2]*redis.DurationCmd
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Do(ctx, "funnel.debug", "clock", now)
			for i, key := range []string{"module", "script"} {
				pipe.Del(ctx, key)
				switch value {
				case "none":
				case "list":
					pipe.LPush(ctx, key, "element")
				default:
					pipe.Set(ctx, key, value, 0)
				}
				if i == 0 {
					replies[i] = pipe.Do(ctx, append([]any{"cl.throttle", key}, call...)...)
				} else {
					// With the quantity in its place, the time is the fifth.
					timed := append(append([]any{}, call...), "1")[:4]
					replies[i] = pipe.Eval(ctx, limiter.Script, []string{key}, append(timed, now)...)
				}
				values[i], expiries[i] = pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
			}
			return nil
		})
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) {
			t.Fatal(err)
		}
		var texts [2]string
		for i := range texts {
			reply, err := replies[i].Slice()
			if err == nil {
				reply = reply[:5]
			}
			texts[i] = fmt.Sprint(reply, err, values[i].Val(), expiries[i].Val())
		}
		require.Equal(t, texts[0], texts[1], "%q on a key with %q", call, value)
		kind := "answered"
		if err := replies[0].Err(); err != nil {
			kind, _, _ = strings.Cut(err.Error(), " must")
			kind, _, _ = strings.Cut(kind, ",")
		}
		outcomes[kind]++
	}
	t.Logf("%d calls: %v", scriptCases()/5, outcomes)
	require.Greater(t, len(outcomes), 8)
	require.Greater(t, outcomes["answered"], scriptCases()/50)
}

func TestScriptChecksTheNumberOfArguments(t *testing.T) {
	client := servertest.Start(t, servertest.Options{}).Client(t)
	for _, c := range []struct {
		keys      []string
		arguments []any
	}{
		{nil, []any{15, 30, 60}},
		{[]string{"a", "b"}, []any{15, 30, 60}},
		{[]string{"a"}, []any{15, 30}},
		{[]string{"a"}, []any{15, 30, 60, 1, 1, 1}},
	} {
		err := client.Eval(context.Background(), limiter.Script, c.keys, c.arguments...).Err()
		require.ErrorContains(t, err, "ERR the script takes 1 key and capacity, count, period, quantity", "%v", c)
	}
}

// The AOF, and so replicas, get the SET that the script performs, as they do from
// the module.
func TestScriptReplicatesItsEffect(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{Config: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	client := server.Client(t)
	l := limiter.New(client)
	for call := 1; call <= 16; call++ {
		result, err := l.Allow(ctx, "user:reply", limiter.PerMinute(30).Burst(15))
		require.NoError(t, err)
		require.Equal(t, call > 15, result.Limited())
	}
	tat, expiry := client.Get(ctx, "user:reply").Val(), client.PExpireTime(ctx, "user:reply").Val()
	require.NotEmpty(t, tat)

	written, err := filepath.Glob(filepath.Join(server.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, written, 1)
	log, err := os.ReadFile(written[0])
	require.NoError(t, err)
	require.Equal(t, 15, strings.Count(string(log), "\r\nPXAT\r\n"))
	require.NotContains(t, strings.ToLower(string(log)), "eval")

	server.Stop()
	server.Restart(t)
	require.Equal(t, tat, client.Get(ctx, "user:reply").Val())
	require.Equal(t, expiry, client.PExpireTime(ctx, "user:reply").Val())
}
