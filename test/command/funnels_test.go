package command_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestFunnelsReply is the example of the contract, as it goes over the wire: RESP2 and
// RESP3 alike.
func TestFunnelsReply(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	servertest.ClockOf(server.Client(t)).Set(t, servertest.Epoch)
	const want = "*3\r\n:0\r\n$1\r\n0\r\n*2\r\n" +
		"*5\r\n:0\r\n:10\r\n:9\r\n$1\r\n0\r\n$3\r\n0.1\r\n" +
		"*5\r\n:0\r\n:1000\r\n:999\r\n$1\r\n0\r\n$3\r\n3.6\r\n"
	for _, protocol := range []string{"2", "3"} {
		wire := server.Wire(t)
		_, err := wire.Do("hello", protocol)
		require.NoError(t, err)
		user := "{u" + protocol + "}"
		_, err = wire.Write(servertest.AppendCommand(nil, "CL.RESERVE",
			user+":s", "10", "10", "1", "1", user+":h", "1000", "1000", "3600", "1"))
		require.NoError(t, err)
		got := make([]byte, len(want))
		_, err = io.ReadFull(wire, got)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// A step of a story is a call at an instant, and what comes of it.
type step struct {
	at    string // after the first instant
	call  string
	reply string
	state string // the TAT of each key, after the first instant
}

// stories are the rows of the contract. Unless they say otherwise, a funnel holds two
// tokens and leaks one in a second.
var stories = map[string][]step{
	"reserve takes turns in the order of asking": {
		{"0s", "cl.reserve k 2 1 1 1", "0 0 [0 2 1 0 1]", "k=1s"},
		{"0s", "cl.reserve k 2 1 1 1 0", "0 0 [0 2 0 0 2]", "k=2s"},
		{"0s", "cl.reserve k 2 1 1 1", "1 1 [1 2 0 1 2]", "k=2s"},
		{"0s", "cl.reserve k 2 1 1 1 0.999999999", "1 0.000000001 [1 2 0 0.000000001 2]", "k=2s"},
		{"0s", "cl.reserve k 2 1 1 1 1", "0 1 [0 2 0 1 3]", "k=3s"},
		{"0s", "cl.reserve k 2 1 1 2 9223372036.854775807", "0 3 [0 2 0 3 5]", "k=5s"},
		{"0.25s", "cl.reserve k 2 1 1 1 60", "0 3.75 [0 2 0 3.75 5.75]", "k=6s"},
		{"0.25s", "cl.throttle k 2 1 1 1", "1 2 0 5 6", "k=6s"},
		{"0.25s", "cl.throttle k 2 1 1 0", "1 2 0 4 6", "k=6s"},
		{"3.999999999s", "cl.throttle k 2 1 1 0", "1 2 0 1 3", "k=6s"},
		{"4s", "cl.throttle k 2 1 1 0", "0 2 0 -1 2", "k=6s"},
		{"4.999999999s", "cl.reserve k 2 1 1 1", "1 0.000000001 [1 2 0 0.000000001 1.000000001]", "k=6s"},
		{"5s", "cl.throttle k 2 1 1 1", "0 2 0 -1 2", "k=7s"},
		{"5s", "cl.reserve k 2 1 1 1 2.5", "0 1 [0 2 0 1 3]", "k=8s"},
		{"1m", "cl.reserve k 2 1 1 1 2.5", "0 0 [0 2 1 0 1]", "k=1m1s"},
	},
	"reserve says how long to wait before asking again, and never": {
		{"0s", "cl.reserve k 2 1 1 2 0.5", "0 0 [0 2 0 0 2]", "k=2s"},
		{"0s", "cl.reserve k 2 1 1 2 0.5", "1 1.5 [1 2 0 1.5 2]", "k=2s"},
		{"1.499999999s", "cl.reserve k 2 1 1 2 0.5", "1 0.000000001 [1 2 1 0.000000001 0.500000001]", "k=2s"},
		{"1.5s", "cl.reserve k 2 1 1 2 0.5", "0 0.5 [0 2 0 0.5 2.5]", "k=4s"},
		{"1.5s", "cl.reserve k 2 1 1 3 9223372036", "1 -1 [1 2 0 -1 2.5]", "k=4s"},
		{"1.5s", "cl.reserve k 2 1 1 3", "1 -1 [1 2 0 -1 2.5]", "k=4s"},
		{"1.5s", "cl.reserve new 2 1 1 3 9223372036", "1 -1 [1 2 2 -1 0]", "k=4s"},
	},
	"reserve with quantity 0 writes nothing": {
		{"0s", "cl.reserve k 2 1 1 0", "0 0 [0 2 2 0 0]", ""},
		{"0s", "cl.reserve k 2 1 1 0 1", "0 0 [0 2 2 0 0]", ""},
		{"0s", "cl.charge k 2 1 1 5", "1 3 [1 2 0 3 5]", "k=5s"},
		{"0s", "cl.reserve k 2 1 1 0", "1 3 [1 2 0 3 5]", "k=5s"},
		{"0s", "cl.reserve k 2 1 1 0 2.9", "1 0.1 [1 2 0 0.1 5]", "k=5s"},
		{"0s", "cl.reserve k 2 1 1 0 3", "0 3 [0 2 0 3 5]", "k=5s"},
	},
	"several are poured into together": {
		{"0s", "cl.reserve a 2 1 1 1 b 4 2 1 3", "0 0 [0 2 1 0 1] [0 4 1 0 1.5]", "a=1s b=1.5s"},
		{"0.5s", "cl.reserve b 4 2 1 1 c 1 1 1 1 a 2 1 1 1 0", "0 0 [0 4 1 0 1.5] [0 1 0 0 1] [0 2 0 0 1.5]", "a=2s b=2s c=1.5s"},
		{"0.5s", "cl.reserve a 2 1 1 0 d 2 1 1 1", "0 0 [0 2 0 0 1.5] [0 2 1 0 1]", "a=2s b=2s c=1.5s d=1.5s"},
	},
	"or into none": {
		{"0s", "cl.charge b 2 1 1 1 c 2 1 1 2", "0 0 [0 2 1 0 1] [0 2 0 0 2]", "b=1s c=2s"},
		{"0.5s", "cl.reserve a 2 1 1 1 b 2 1 1 1 c 2 1 1 1", "1 0.5 [0 2 2 0 0] [0 2 1 0 0.5] [1 2 0 0.5 1.5]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 1 b 2 1 1 1 a 2 1 1 1 0", "1 0.5 [1 2 0 0.5 1.5] [0 2 1 0 0.5] [0 2 2 0 0]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 2 b 2 1 1 2", "1 1.5 [1 2 0 1.5 1.5] [1 2 1 0.5 0.5]", "b=1s c=2s"},
		{"0.5s", "cl.reserve b 2 1 1 2 c 2 1 1 2", "1 1.5 [1 2 1 0.5 0.5] [1 2 0 1.5 1.5]", "b=1s c=2s"},
		{"0.5s", "cl.reserve a 2 1 1 3 c 2 1 1 2", "1 -1 [1 2 2 -1 0] [1 2 0 1.5 1.5]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 2 a 2 1 1 3 b 2 1 1 1", "1 -1 [1 2 0 1.5 1.5] [1 2 2 -1 0] [0 2 1 0 0.5]", "b=1s c=2s"},
		{"1s", "cl.reserve a 2 1 1 1 b 2 1 1 1 c 2 1 1 1", "0 0 [0 2 1 0 1] [0 2 1 0 1] [0 2 0 0 2]", "a=2s b=2s c=3s"},
	},
	"peek tells what reserve would, and the state as it is": {
		{"0s", "cl.peek k 2 1 1 1", "0 0 [0 2 2 0 0]", ""},
		{"0s", "cl.peek k 2 1 1 3", "1 -1 [1 2 2 -1 0]", ""},
		{"0s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1]", "k=1s"},
		{"0.25s", "cl.peek k 2 1 1 0", "0 0 [0 2 1 0 0.75]", "k=1s"},
		{"0.25s", "cl.peek k 2 1 1 1", "0 0 [0 2 1 0 0.75]", "k=1s"},
		{"0.25s", "cl.peek k 2 1 1 2", "1 0.75 [1 2 1 0.75 0.75]", "k=1s"},
		{"0.25s", "cl.peek k 2 1 1 1 new 5 1 1 5", "0 0 [0 2 1 0 0.75] [0 5 5 0 0]", "k=1s"},
		{"0.25s", "cl.peek new 5 1 1 5 k 2 1 1 2", "1 0.75 [0 5 5 0 0] [1 2 1 0.75 0.75]", "k=1s"},
		{"0.25s", "cl.peek new 5 1 1 6 k 2 1 1 2", "1 -1 [1 5 5 -1 0] [1 2 1 0.75 0.75]", "k=1s"},
		{"2s", "cl.peek k 2 1 1 2", "0 0 [0 2 2 0 0]", "k=1s"},
	},
	"charge always books": {
		{"0s", "cl.charge k 2 1 1 2", "0 0 [0 2 0 0 2]", "k=2s"},
		{"0s", "cl.charge k 2 1 1 1", "1 1 [1 2 0 1 3]", "k=3s"},
		{"0s", "cl.charge k 2 1 1 7", "1 8 [1 2 0 8 10]", "k=10s"},
		{"7.999999999s", "cl.charge k 2 1 1 0", "1 0.000000001 [1 2 0 0.000000001 2.000000001]", "k=10s"},
		{"8s", "cl.charge k 2 1 1 0", "0 0 [0 2 0 0 2]", "k=10s"},
		{"8.5s", "cl.throttle k 2 1 1 1", "1 2 0 1 2", "k=10s"},
		{"30s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1]", "k=31s"},
		{"30s", "cl.charge new 2 1 1 0", "0 0 [0 2 2 0 0]", "k=31s"},
		{"30s", "cl.charge new 2 1 1 3 k 2 1 1 1", "1 1 [1 2 0 1 3] [0 2 0 0 2]", "k=32s new=33s"},
		{"30s", "cl.charge new 2 1 1 1 k 2 1 1 2", "1 2 [1 2 0 2 4] [1 2 0 2 4]", "k=34s new=34s"},
	},
	"refund gives back, but nothing that has leaked": {
		{"0s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", ""},
		{"0s", "cl.charge k 2 1 1 4", "1 2 [1 2 0 2 4]", "k=4s"},
		{"0s", "cl.refund k 2 1 1 1", "1 1 [1 2 0 1 3]", "k=3s"},
		{"0s", "cl.refund k 2 1 1 0", "1 1 [1 2 0 1 3]", "k=3s"},
		{"0.5s", "cl.refund k 2 1 1 1", "0 0 [0 2 0 0 1.5]", "k=2s"},
		{"0.5s", "cl.refund k 2 1 1 1", "0 0 [0 2 1 0 0.5]", "k=1s"},
		{"0.999999999s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", ""},
		{"1s", "cl.charge k 2 1 1 2", "0 0 [0 2 0 0 2]", "k=3s"},
		{"1s", "cl.refund k 2 1 1 2", "0 0 [0 2 2 0 0]", ""},
		{"1s", "cl.charge k 2 1 1 2", "0 0 [0 2 0 0 2]", "k=3s"},
		{"1s", "cl.refund k 2 1 1 1000000000", "0 0 [0 2 2 0 0]", ""},
		{"1s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1]", "k=2s"},
		{"3s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", "k=2s"},
		{"3s", "cl.charge a 2 1 1 1 b 2 1 1 2", "0 0 [0 2 1 0 1] [0 2 0 0 2]", "a=4s b=5s k=2s"},
		{"3s", "cl.refund a 2 1 1 1 b 2 1 1 1 k 2 1 1 1", "0 0 [0 2 2 0 0] [0 2 1 0 1] [0 2 2 0 0]", "b=4s k=2s"},
	},
	"refund moves nobody forward": {
		{"0s", "cl.reserve k 1 1 1 1 9", "0 0 [0 1 0 0 1]", "k=1s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 1 [0 1 0 1 2]", "k=2s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 2 [0 1 0 2 3]", "k=3s"},
		{"0s", "cl.refund k 1 1 1 1", "1 1 [1 1 0 1 2]", "k=2s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 2 [0 1 0 2 3]", "k=3s"},
	},
	"to the nanosecond, and expire in the next millisecond": {
		{"0s", "cl.reserve k 1 1 1.000000001 1", "0 0 [0 1 0 0 1.000000001]", "k=1.000000001s"},
		{"1s", "cl.reserve k 1 1 1.000000001 1 0.000000001", "0 0.000000001 [0 1 0 0.000000001 1.000000002]", "k=2.000000002s"},
		{"1.999s", "cl.refund k 1 1 0.001000001 1", "0 0 [0 1 0 0 0.000000001]", "k=1.999000001s"},
		{"10s", "cl.charge k 3 7 0.5 1", "0 0 [0 3 2 0 0.071428571]", "k=10.071428571s"},
	},
}

func TestFunnelsStories(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.FlushAll(context.Background()).Err())
			for _, step := range steps {
				at, err := time.ParseDuration(step.at)
				require.NoError(t, err)
				clock.Set(t, servertest.Epoch.Add(at))
				what := step.call + " after " + step.at
				require.Equal(t, step.reply, replyTo(t, client, step.call), what)
				require.Equal(t, step.state, stateOf(t, client), what)
			}
		})
	}
}

// replyTo calls any of the five commands.
func replyTo(t *testing.T, client *redis.Client, call string) string {
	t.Helper()
	if words, isThrottle := strings.CutPrefix(call, "cl.throttle "); isThrottle {
		reply := servertest.Throttle(t, client, servertest.Words(words)...)
		return strings.Trim(fmt.Sprint(reply), "[]")
	}
	return servertest.Funnels(t, client, call)
}

// stateOf are the TATs of all keys. It requires that each expires at its TAT, rounded up
// to the next millisecond.
func stateOf(t *testing.T, client *redis.Client) string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	slices.Sort(keys)
	for i, key := range keys {
		tat, err := client.Get(ctx, key).Int64()
		require.NoError(t, err)
		expiry := servertest.ExpiryOf(t, client, key)
		require.GreaterOrEqual(t, expiry*1e6, tat)
		require.Less(t, (expiry-1)*1e6, tat)
		keys[i] += "=" + time.Unix(0, tat).Sub(servertest.Epoch).String()
	}
	return strings.Join(keys, " ")
}

// TestFunnelsReachTheEndOfTime: the longest time that there is.
func TestFunnelsReachTheEndOfTime(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	const most = "9223372036.854775807"
	clock.Set(t, time.Unix(0, 0))
	require.Equal(t, "0 0 [0 1 0 0 "+most+"]", servertest.Funnels(t, client, "cl.reserve k 1 1 "+most+" 1 "+most))
	require.Equal(t, "1 "+most+" [1 1 0 "+most+" "+most+"]", servertest.Funnels(t, client, "cl.peek k 1 1 "+most+" 1"))
	require.Equal(t, "9223372036854775807", client.Get(context.Background(), "k").Val())
	require.Equal(t, "0 0 [0 9223372036854775807 9223372036854775806 0 0.000000001]",
		servertest.Funnels(t, client, "cl.reserve big 9223372036854775807 1 0.000000001 1"))
}

// TestFunnelsUpToSixtyFour in one call, each with arguments of its own.
func TestFunnelsUpToSixtyFour(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	words := func(quantity func(i int) int) (line string) {
		for i := range 64 {
			line += fmt.Sprintf(" key:%d %d 1 1 %d", i, 100+i, quantity(i))
		}
		return line
	}
	rows := func(row string) (line string) {
		for i := range 64 {
			line += " " + strings.NewReplacer("LIMIT", strconv.Itoa(100+i), "LEFT", strconv.Itoa(99), "LEVEL", strconv.Itoa(i+1)).Replace(row)
		}
		return line
	}
	own := func(i int) int { return i + 1 }
	none := func(int) int { return 0 }
	require.Equal(t, "0 0"+rows("[0 LIMIT LIMIT 0 0]"), servertest.Funnels(t, client, "cl.peek"+words(own)))
	require.Equal(t, "0 0"+rows("[0 LIMIT LEFT 0 LEVEL]"), servertest.Funnels(t, client, "cl.reserve"+words(own)+" 0"))
	require.Equal(t, "0 0"+rows("[0 LIMIT LEFT 0 LEVEL]"), servertest.Funnels(t, client, "cl.charge"+words(none)))
	before := stateOf(t, client)
	last := func(i int) int { return 1 + i/63*99 } // the last asks for one more than is left
	require.Regexp(t, `^1 1 \[0 100 99 0 1\] .* \[1 163 99 1 64\]$`, servertest.Funnels(t, client, "cl.reserve"+words(last)))
	require.Equal(t, before, stateOf(t, client))
	require.Equal(t, "0 0"+rows("[0 LIMIT LIMIT 0 0]"), servertest.Funnels(t, client, "cl.refund"+words(own)))
	require.Empty(t, stateOf(t, client))
}

// TestFunnelsInRedisCellMode read the capacity in its own way, too.
func TestFunnelsInRedisCellMode(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module:          servertest.DebugModule(t),
		ModuleArguments: []string{"compat", "redis-cell"},
	})
	client := server.Client(t)
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	for _, step := range []struct{ call, reply string }{
		{"cl.peek k 0 1 1 1", "0 0 [0 1 1 0 0]"},
		{"cl.reserve k 0 1 1 1 5", "0 0 [0 1 0 0 1]"},
		{"cl.reserve k 0 1 1 1 5", "0 1 [0 1 0 1 2]"},
		{"cl.charge k 0 1 1 1 j 15 30 60 1", "1 2 [1 1 0 2 3] [0 16 15 0 2]"},
		{"cl.refund k 0 1 1 1 j 15 30 60 1", "1 1 [1 1 0 1 2] [0 16 16 0 0]"},
	} {
		require.Equal(t, step.reply, servertest.Funnels(t, client, step.call), step.call)
	}
}

// TestFunnelsReservedAtOnceAreThrottled, exactly: on funnels with the same past, both say the
// same and store the same.
func TestFunnelsReservedAtOnceAreThrottled(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	now := servertest.Epoch
	limited := 0
	for range 300 {
		clock.Set(t, now)
		rest := fmt.Sprintf("5 3 1.1 %d", rand.IntN(7))
		throttled := servertest.Throttle(t, client, servertest.Words("throttled "+rest)...)
		line := "cl.reserve reserved " + rest + []string{"", " 0", " 0.0"}[rand.IntN(3)]
		reply, err := client.Do(ctx, servertest.Words(line)...).Slice()
		require.NoError(t, err)
		row := reply[2].([]any)[0].([]any)
		require.Equal(t, reply[:2], []any{row[0], row[3]})
		retryAfter := roundedUp(t, row[3].(string))
		if row[0] == int64(0) {
			require.Equal(t, "0", row[3])
			retryAfter = -1
		}
		require.Equal(t, throttled, servertest.Reply{row[0].(int64), row[1].(int64), row[2].(int64), retryAfter,
			roundedUp(t, row[4].(string))}, line)
		require.Equal(t, client.Get(ctx, "throttled").Val(), client.Get(ctx, "reserved").Val(), line)
		limited += int(throttled[0])
		now = now.Add(time.Duration(rand.Int64N(int64(1500 * time.Millisecond))))
	}
	require.Positive(t, limited)
	require.Less(t, limited, 300)
}

// roundedUp are whole seconds, of a decimal.
func roundedUp(t *testing.T, seconds string) int64 {
	t.Helper()
	whole, _, more := strings.Cut(seconds, ".")
	number, err := strconv.ParseInt(whole, 10, 64)
	require.NoError(t, err)
	if more {
		number++
	}
	return number
}

// TestFunnelsLawHoldsForTurns: callers who go ahead at their turn do so in the order of
// asking, and never with more tokens than capacity + elapsed / T, in any stretch of time.
func TestFunnelsLawHoldsForTurns(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	const capacity, interval = 4, 250 * time.Millisecond
	type turn struct {
		at     time.Duration
		tokens int64
	}
	var turns []turn
	now, waited := time.Duration(0), 0
	for range 400 {
		clock.Set(t, servertest.Epoch.Add(now))
		quantity := rand.Int64N(5)
		words := fmt.Sprintf("k %d 4 1 %d", capacity, quantity)
		wait := time.Duration(0)
		if rand.IntN(3) == 0 {
			if servertest.Throttle(t, client, servertest.Words(words)...)[0] == 1 {
				continue
			}
		} else {
			reply, err := client.Do(context.Background(), servertest.Words("cl.reserve "+words+" 1.5")...).Slice()
			require.NoError(t, err)
			wait, err = time.ParseDuration(reply[1].(string) + "s")
			require.NoError(t, err)
			if reply[0] == int64(1) {
				now += rand.N(interval)
				continue
			}
			require.LessOrEqual(t, wait, 1500*time.Millisecond)
		}
		if quantity > 0 {
			turns = append(turns, turn{now + wait, quantity})
		}
		if wait > 0 {
			waited++
		}
		now += rand.N(interval * 4)
	}
	require.Positive(t, waited)
	for first := range turns {
		tokens := int64(0)
		for last := first; last < len(turns); last++ {
			elapsed := turns[last].at - turns[first].at
			require.GreaterOrEqual(t, elapsed, time.Duration(0), "turns come in the order of asking")
			tokens += turns[last].tokens
			require.LessOrEqual(t, tokens, capacity+int64(elapsed/interval))
		}
	}
	t.Logf("%d turns, %d of them after a wait", len(turns), waited)
}
