package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// Module and script read words and keys alike, reply the same, errors included, and each
// continues from what the other has stored. The same calls go to two sets of keys, to one
// by module, to the other by both.
func TestScriptRepliesWhatTheModuleReplies(t *testing.T) {
	words := []string{
		"1", "15", "30", "60", "0", "-1", "+1", "01", "00", "", " 1", "1 ", "1x", "x", "0x10", "1e3", "1.0", ".5", "0.5",
		"5.", "0.", ".", "..", "1.2.3", "0.000000001", "0.0000000001", "0.1234567890", "1.999999999", "-0.5", "nan", "inf",
		"9223372036854775807", "9223372036854775808", "9999999999999999999", "10000000000000000000",
		"9223372036", "9223372036.854775807", "9223372036.854775808", "9223372037", "09223372036.8", "99999999999",
		"9007199254740992", "9007199254740993", "1000000", "999999", "123456789012345", "1234567890123456",
		"\x00", "1\x00", "a\r\nb", "%d", "\xff", strings.Repeat("7", 40), strings.Repeat("x", 41), strings.Repeat("\n", 100),
	}
	wire := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}).Wire(t)
	hash := exchange(t, wire, []string{"script", "load", limiter.WithClock(limiter.Script())})[0].(string)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	anyOf := func(texts []string) string { return texts[random.IntN(len(texts))] }
	now := time.Date(2100, 1, 1, 0, 0, 0, 123456000, time.UTC).UnixNano()
	outcomes := map[string]int{}
	cases := servertest.QuickOrLong(20_000, 1_000_000)
	for range cases {
		now += randomNumber(random, 10e6) * 1000
		stored := []string{
			"", "0", fmt.Sprint(now), fmt.Sprint(now + 30e9), fmt.Sprint(now + 28e9), fmt.Sprint(now + 28e9 + 1),
			"9223372036854775807", "9223372036854775808", "-1", "+1", "01", "1.5", "abc",
		}
		command, lastWord := anyOf([]string{"reserve", "take", "peek", "charge", "refund"}), ""
		var keys, funnels []string
		for i := range max(randomLength(random), 1+random.IntN(2)) {
			keys = append(keys, strconv.Itoa(i))
			funnels = append(funnels, "15", "30", "60", strconv.Itoa(random.IntN(5)))
		}
		if random.IntN(10) == 0 {
			keys[random.IntN(len(keys))] = anyOf(keys)
		}
		if random.IntN(2) == 0 {
			funnels[random.IntN(len(funnels))] = anyOf(words)
		}
		if command == "take" {
			keys, funnels = keys[:1], funnels[:4]
		}
		if (command == "reserve" || command == "refund") && random.IntN(3) == 0 {
			lastWord = anyOf(append(words, stored[2:6]...))
		}

		var more []string
		if random.IntN(50) == 0 {
			more = words[:1+random.IntN(2)]
		}
		call := func(prefix string) scriptCall {
			call := scriptCall{command: command, now: now}
			for i, key := range keys {
				call.words = append(append(call.words, prefix+key), funnels[4*i:4*i+4]...)
			}
			if lastWord != "" {
				call.words = append(call.words, lastWord)
			}
			call.words = append(call.words, more...)
			return call
		}
		calls := [][]string{call("one:").byModule(), call("two:").evalsha(hash)}
		if random.IntN(4) == 0 {
			calls[1] = call("two:").byModule()
		}
		commands := [][]string{{"funnel.debug", "clock", strconv.FormatInt(now, 10)}}
		key, value, kind := anyOf(keys), anyOf(stored), random.IntN(8)
		for _, prefix := range []string{"one:", "two:"} {
			commands = append(commands, [][]string{
				{"lpush", prefix + key, "element"}, // does nothing to a string
				{"set", prefix + key, value},
				{"del", prefix + key}, {"del", prefix + key}, {"del", prefix + key},
				{"ping"}, {"ping"}, {"ping"},
			}[kind])
		}
		commands = append(commands, calls...)
		for _, key := range keys {
			for _, prefix := range []string{"one:", "two:"} {
				commands = append(commands, []string{"get", prefix + key}, servertest.AskExpiry(t, prefix+key))
			}
		}

		replies := exchange(t, wire, commands...)[3:]
		// Of integers of more than 15 digits the script makes strings.
		if fmt.Sprint(replies[0]) != fmt.Sprint(replies[1]) {
			t.Fatalf("%q\nreplies %v,\n%q\nreplies %v", calls[0], replies[0], calls[1], replies[1])
		}
		for i, key := range keys {
			require.Equal(t, replies[2+4*i:4+4*i], replies[4+4*i:6+4*i], "key %s after %q", key, calls)
		}
		outcome := command
		if text, isError := replies[0].(servertest.ErrorReply); isError {
			outcome = details.ReplaceAllString(string(text), "")
		}
		outcomes[outcome]++
	}
	t.Logf("%d calls: %v", cases, outcomes)
	require.Len(t, outcomes, 5+29)
}

// details are what differs in error replies of one kind.
var details = regexp.MustCompile(`, not ['0-9](?s).*|: got .*| [0-9]+`)

func TestScriptSaysWhatItTakes(t *testing.T) {
	client := bare(t).Client(t)
	for _, c := range []struct{ keys, words, want string }{
		{"", "", "the script takes"},
		{"k", "15 30 60 1", "the script takes"},
		{"k", "RESERVE 15 30 60 1", "the script takes"},
		{"k", "throttle 15 30 60 1", "the script takes"},
		{"k", "reserve,now=1 15 30 60 1", "the script takes"},
		{"", "reserve", "wrong number of arguments for 'cl.reserve' command"},
		{"k", "reserve 1 1 3600 1 0 5", "wrong number of arguments for 'cl.reserve' command"},
		{"k", "peek 15 30 60 1 0", "wrong number of arguments for 'cl.peek' command"},
		{"k l", "charge 15 30 60 1", "wrong number of arguments for 'cl.charge' command"},
		{strings.Repeat("k ", 65), "refund" + strings.Repeat(" 15 30 60 1", 65), "wrong number of arguments for 'cl.refund' command"},
	} {
		err := client.Eval(context.Background(), limiter.Script(), strings.Fields(c.keys), servertest.ToAny(strings.Fields(c.words))...).Err()
		require.ErrorContains(t, err, "ERR "+c.want, "%v", c)
	}

	// Servers drop at once what expires in 1970, so this looks at what they are sent.
	const stop = "local redis = {pcall = redis.pcall, call = function(_, _, value) error(value) end}\n"
	err := client.Eval(context.Background(), stop+limiter.WithClock(limiter.Script()), []string{"0", "1", "k"}, "reserve", 30, 30, 1, 1).Err()
	require.ErrorContains(t, err, ": 33334333")
}

// The AOF, and so replicas, get what the script writes, as they do from the module, and
// several funnels of one call in one transaction. Peeks run where nothing may be written.
func TestScriptReplicatesItsEffect(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{Config: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	client := server.Client(t)
	call := func(keys string, words ...any) {
		t.Helper()
		require.NoError(t, client.Eval(ctx, limiter.Script(), strings.Fields(keys), words...).Err())
	}
	var want [][]string
	written := func(key string) {
		tat, expiry := client.Get(ctx, key).Val(), servertest.ExpiryOf(t, client, key)
		require.Len(t, tat, 19)
		want = append(want, []string{"SET", key, tat, "PXAT", strconv.FormatInt(expiry, 10)})
	}
	call("one", "reserve", 15, 30, 6000, 3)
	written("one")
	call("one", "reserve", 15, 30, 6000, 13)
	call("one", "reserve", 15, 30, 6000, 0)
	call("one", "peek", 15, 30, 6000, 1)
	call("one", "charge", 15, 30, 6000, 30)
	written("one")
	call("one two", "refund", 15, 30, 6000, 1, 15, 30, 6000, 1)
	written("one")
	call("one", "refund", 15, 30, 6000, 100)
	want = append(want, []string{"DEL", "one"})
	call("one two", "reserve", 15, 30, 6000, 1, 15, 30, 6000, 1)
	want = append(want, []string{"MULTI"})
	written("one")
	written("two")
	want = append(want, []string{"EXEC"})
	require.Equal(t, want, servertest.ReadAppendOnlyFile(t, server)[1:])

	if servertest.Since7(t) {
		require.NoError(t, client.ReplicaOf(ctx, "127.0.0.1", "1").Err())
		require.NoError(t, client.EvalRO(ctx, limiter.Script(), []string{"one", "two"}, "peek", 15, 30, 6000, 1, 15, 30, 6000, 1).Err())
	}
}

// With the permissions of docs/clients.md, and above maxmemory: whatever is refused has
// written nothing.
func TestScriptOfAUserAboveMaxmemory(t *testing.T) {
	ctx := context.Background()
	server := bare(t)
	admin := server.Client(t)
	require.NoError(t, admin.Do(ctx, "acl", "setuser", "default", "-@all", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+config").Err())
	call := func(words ...any) (err error) {
		err = admin.Eval(ctx, limiter.Script(), []string{"k", "l"}, words...).Err()
		return err
	}
	require.NoError(t, call("charge", 15, 30, 6000, 20, 15, 30, 6000, 1))
	before := admin.Get(ctx, "k").Val()
	require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "1").Err())
	require.NoError(t, call("peek", 15, 30, 6000, 1, 15, 30, 6000, 1))
	require.NoError(t, call("reserve", 15, 30, 6000, 1, 15, 30, 6000, 1), "it is limited")
	require.ErrorContains(t, call("refund", 15, 30, 6000, 1, 15, 30, 6000, 1), "OOM")
	require.ErrorContains(t, call("charge", 15, 30, 6000, 1, 15, 30, 6000, 1), "OOM")
	require.Equal(t, before, admin.Get(ctx, "k").Val())
	require.NoError(t, call("refund", 15, 30, 6000, 100, 15, 30, 6000, 100))
	require.ErrorIs(t, admin.Get(ctx, "k").Err(), redis.Nil)
}
