// What each command replies and stores, call after call, to the nanosecond. The fuzzer of
// test/model also has values that other commands have written, in any encoding.

package command_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A step of a story is a call at an instant, its reply, and the state after it.
type step struct {
	at    string // after the first instant
	call  string
	reply string
	state string // of each key: see stateOf
}

// stories are sequences of calls, with the replies that the contract asks for. The files of their
// tables begin with story_.
var stories = map[string]map[string][]step{
	"funnels": funnelStories,
	"slots":   slotStories,
	"quotas":  quotaStories,
}

// stateOf returns the state of each key: its TAT as the time after the first instant, its slots, or
// the used sum of its quota. It requires that a funnel expires at its TAT, rounded up to the next
// millisecond.
func stateOf(t *testing.T, client *redis.Client) string {
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	slices.Sort(keys)
	for i, key := range keys {
		if client.Type(ctx, key).Val() == "zset" {
			keys[i] += slotsOf(t, client, key)
			continue
		}
		value, err := client.Get(ctx, key).Result()
		require.NoError(t, err)
		if strings.HasPrefix(value, "used:") {
			keys[i] += quotaOf(t, client, key, value)
			continue
		}
		tat, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		require.Equal(t, tat/1e6+(tat%1e6+999_999)/1e6, servertest.ExpiryOf(t, client, key), key)
		keys[i] += "=" + time.Unix(0, tat).Sub(servertest.Epoch).String()
	}
	return strings.Join(keys, " ")
}

// slotsOf returns the holders of slots and the ends of the slots, as times after the first instant.
func slotsOf(t *testing.T, client *redis.Client, key string) string {
	members, err := client.ZRangeWithScores(context.Background(), key, 0, -1).Result()
	require.NoError(t, err)
	var words []string
	for _, member := range members {
		word := fmt.Sprint(member.Score)
		milliseconds := member.Score - float64(servertest.Epoch.UnixMilli())
		if !math.IsInf(milliseconds, 0) {
			whole, part := math.Modf(milliseconds)
			word = (time.Duration(whole)*time.Millisecond + time.Duration(part*1e6)).String()
		}
		words = append(words, fmt.Sprint(member.Member, ":", word))
	}
	expiry, last := int64(-1), members[len(members)-1].Score
	if last < 1<<63 {
		expiry = int64(math.Ceil(last))
	}
	require.Equal(t, expiry, servertest.ExpiryOf(t, client, key), "%s: %v", key, words)
	return "{" + strings.Join(words, " ") + "}"
}

// quotaOf returns the used sum of a quota, and when its key expires, as the time after the first
// instant.
func quotaOf(t *testing.T, client *redis.Client, key, value string) string {
	expiry := servertest.ExpiryOf(t, client, key)
	if expiry >= 0 {
		value += "@" + time.UnixMilli(expiry).Sub(servertest.Epoch).String()
	}
	return "=" + value
}

var instants = regexp.MustCompile(`(?:UNTIL |')\+|\^\d[0-9.]*s|@\d[0-9.]*s|\+\d+`)

// withInstants replaces times after the first instant by the words of commands and replies: @1.5s
// becomes a TAT or a receipt, ^1.5s an until, and +1500 the Unix milliseconds of a slot's end or an
// expiry. UNTIL +1500 stays, and so does '+1500'.
func withInstants(text string) string {
	return instants.ReplaceAllStringFunc(text, func(word string) string {
		if strings.HasSuffix(word, "+") {
			return word
		}
		kind, span := word[0], word[1:]
		if kind == '+' {
			span += "ms"
		}
		after, err := time.ParseDuration(span)
		if err != nil {
			panic(err)
		}
		at := servertest.Epoch.Add(after)
		switch kind {
		case '@':
			return fmt.Sprint(at.UnixNano())
		case '^':
			return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()), "0"), ".")
		default:
			return fmt.Sprint(at.UnixMilli())
		}
	})
}

func TestStories(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	for kind, ofKind := range stories {
		for name, steps := range ofKind {
			t.Run(kind+"/"+name, func(t *testing.T) {
				require.NoError(t, client.FlushAll(t.Context()).Err())
				for _, step := range steps {
					step.require(t, client, clock)
				}
			})
		}
	}
}

// require makes the call at its instant, and requires its reply and the state after it.
func (s step) require(t *testing.T, client *redis.Client, clock servertest.Clock) {
	at, err := time.ParseDuration(s.at)
	require.NoError(t, err)
	clock.Set(t, servertest.Epoch.Add(at))
	before := stateOf(t, client)
	reply, _, _ := strings.Cut(servertest.Try(client, withInstants(s.call)), ": got ")
	require.Equal(t, withInstants(s.reply), reply, "reply of %s at %s, after %s", s.call, s.at, before)
	require.Equal(t, s.state, stateOf(t, client), "state after %s at %s, before: %s", s.call, s.at, before)
}

// TestTheClockIsThatOfTheMachine: the instant of a call lies between the machine's time before the
// call and the time after it, to the nanosecond.
func TestTheClockIsThatOfTheMachine(t *testing.T) {
	ctx := t.Context()
	client := servertest.StartClient(t)
	for range 100 {
		before := time.Now().UnixNano()
		servertest.Call(t, client, "cl.throttle key 1 1 60")
		after := time.Now().UnixNano()
		tat, err := client.GetDel(ctx, "key").Int64()
		require.NoError(t, err)
		require.LessOrEqual(t, before, tat-60e9)
		require.LessOrEqual(t, tat-60e9, after)
	}
}

// TestBrokenSets: RESTORE accepts sets with scores that are not numbers, or not in order. With such
// a set, no call crashes or hangs, and the script's CL.PEEK writes nothing.
func TestBrokenSets(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	ctx := t.Context()
	script := redis.NewScript(limiter.Script())
	for name, payload := range map[string]string{
		"nan, h": "\x0c%%\x00\x00\x00\x15\x00\x00\x00\x04\x00\x00\x01n\x03\x03nan\x05\x01h\x03\x0d4102444830000" +
			"\xff\x09\x00\xb7y-\xcfNl\x9bg",
		"h, -5, inf": "\x0c,,\x00\x00\x00&\x00\x00\x00\x06\x00\x00\x01h\x03\x0d4102444830000\x0f\x01n\x03\x02-5" +
			"\x04\x01i\x03\x03inf\xff\x09\x00\x22^#$0\xda\xbcz",
		"nan of h": "\x0c\x13\x13\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01h\x03\x03nan\xff" +
			"\x09\x00\xd8\xef\xc0\xb2\xc8\x11A\xfb",
	} {
		err := client.RestoreReplace(ctx, "k", 0, payload).Err()
		if err != nil { // Valkey 9 refuses some of these sets
			require.ErrorContains(t, err, "Bad data format")
			continue
		}
		for _, call := range []string{"cl.peek k 1 SLOTS 30 h", "cl.refund k 1 SLOTS 30 h"} {
			require.NoError(t, client.RestoreReplace(ctx, "k", 0, payload).Err(), name)
			require.Contains(t, servertest.Call(t, client, call), " 1 0 ", "%s: %s", name, call)
		}
		require.NoError(t, client.RestoreReplace(ctx, "k", 0, payload).Err(), name)
		before := client.Dump(ctx, "k").Val()
		require.NoError(t, script.Eval(ctx, client, []string{"k"}, "peek", 3, "SLOTS", 30, "h").Err(), name)
		require.Equal(t, before, client.Dump(ctx, "k").Val(), name)
	}
}

// TestZCOUNTMayBeMissing: calls let the server count many slots. If ZCOUNT has been renamed, the
// module counts them.
func TestZCOUNTMayBeMissing(t *testing.T) {
	for _, config := range [][]string{{}, {"--rename-command", "zcount", "hidden"}} {
		client := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t), Config: config}).Client(t)
		servertest.ClockOf(client).Set(t, servertest.Epoch)
		const fill = `for i = 1, 300 do redis.call('ZADD', KEYS[1], i, 'ended:' .. i, 4102444800000 + i, 'running:' .. i) end`
		require.ErrorIs(t, client.Eval(t.Context(), fill, []string{"k"}).Err(), redis.Nil)
		for limit, want := range map[string]string{"300": "1 0.001 [1 300 0 0.001 0.3]", "999": "0 0 [0 999 699 0 0.3]"} {
			require.Equal(t, want, servertest.Call(t, client, "cl.peek k "+limit+" SLOTS 30 h"), "%q", config)
		}
	}
}
