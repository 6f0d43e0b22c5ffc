package limiter_test

import (
	"context"

	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
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

// A scriptCall is one call of the script, with a given time.
type scriptCall struct {
	command      string
	funnels      []scriptFunnel
	maxWait, now int64
}

type scriptFunnel struct{ capacity, count, period, quantity, tat int64 }

// noKey is the tat of a funnel that is not stored.
const noKey = -1

// The script decides, replies and stores what package gcra says, to the nanosecond, over
// the whole range of 63 bits.
func TestScriptAgreesWithTheArithmetic(t *testing.T) {
	for command, kinds := range map[string][]string{
		"reserve": {"allowed", "limited", "never", "waits", "error"},
		"peek":    {"allowed", "limited", "never", "error"},
		"charge":  {"allowed", "limited", "error"},
		"refund":  {"allowed", "limited", "emptied", "error"},
	} {
		t.Run(command, func(t *testing.T) {
			cases := servertest.QuickOrLong(20_000, 1_000_000)
			outcomes := compareScript(t, limiter.Script(), command, cases)
			for _, kind := range kinds {
				require.Greater(t, outcomes[kind], cases/200, kind)
			}
			require.Zero(t, outcomes["left to the next part"])

			// The second part decides every call without the first.
			outcomes = compareScript(t, readPart(t, "funnels_exact.lua"), command, cases/2)
			require.Zero(t, outcomes["left to the next part"])

			// The first part decides right or not at all, and never replies an error.
			outcomes = compareScript(t, readPart(t, "funnels_short.lua"), command, cases/2)
			for _, kind := range append(kinds, "left to the next part") {
				if kind != "error" {
					require.Greater(t, outcomes[kind], cases/1000, kind)
				}
			}
			require.Zero(t, outcomes["error"])
		})
	}
}

func readPart(t *testing.T, name string) string {
	t.Helper()
	part, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, limiter.Script(), string(part))
	return string(part)
}

// compareScript compares a script with package gcra in random calls, and returns how many
// had which outcome.
func compareScript(t *testing.T, script, command string, cases int) (outcomes map[string]int) {
	t.Helper()
	const batch = 500
	wire := servertest.Start(t, servertest.Options{}).Wire(t)
	hash := exchange(t, wire, []string{"script", "load", script})[0].(string)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	outcomes = map[string]int{}
	for done := 0; done < cases; done += batch {
		calls := make([]scriptCall, batch)
		commands := [][]string{{"flushall"}}
		for i := range calls {
			calls[i] = randomCall(random, command)
			commands = append(commands, calls[i].commands(t, hash, i)...)
		}
		replies := exchange(t, wire, commands...)[1:]
		wallClock := time.Now().UnixNano()
		for _, call := range calls {
			var got []any
			for _, f := range call.funnels {
				if f.tat != noKey {
					replies = replies[1:]
				}
			}
			length := 1 + 2*len(call.funnels)
			got, replies = replies[:length], replies[length:]
			want, kind := call.expect(wallClock)
			if got[0] == nil {
				want, kind = append([]any{nil}, call.untouched()...), "left to the next part"
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v on a server at %d:\ngot  %v\nwant %v", call, wallClock, got, want)
			}
			outcomes[kind]++
		}
	}
	t.Logf("%d calls: %v", cases, outcomes)
	return outcomes
}

// exchange sends commands at once and returns their replies.
func exchange(t *testing.T, wire *servertest.Wire, commands ...[]string) (replies []any) {
	t.Helper()
	err := servertest.CallMany(wire, len(commands), func(i int) []string { return commands[i] },
		func(_ int, reply any) error {
			replies = append(replies, reply)
			return nil
		})
	require.NoError(t, err)
	return replies
}

// commands are those that prepare the keys, the call, and two for each key that ask what
// became of it.
func (c scriptCall) commands(t *testing.T, hash string, number int) (commands [][]string) {
	call := []string{"evalsha", hash, strconv.Itoa(len(c.funnels))}
	var words []string
	var after [][]string
	for i, f := range c.funnels {
		key := fmt.Sprint(number, ":", i)
		if f.tat != noKey {
			commands = append(commands, []string{"set", key, strconv.FormatInt(f.tat, 10)})
		}
		call = append(call, key)
		words = append(words, fmt.Sprint(f.capacity), fmt.Sprint(f.count), seconds(f.period), fmt.Sprint(f.quantity))
		after = append(after, []string{"get", key}, servertest.AskExpiry(t, key))
	}
	call = append(append(append(call, c.command), words...), seconds(c.maxWait), strconv.FormatInt(c.now, 10))
	return append(append(commands, call), after...)
}

// expect is the reply of the call by package gcra, and then value and expiry of each key.
func (c scriptCall) expect(wallClock int64) (want []any, kind string) {
	asks := make([]gcra.Ask, len(c.funnels))
	failed, err := 0, error(nil)
	for i, f := range c.funnels {
		asks[i] = gcra.Ask{TAT: max(f.tat, gcra.Empty), Quantity: f.quantity}
		if asks[i].Rate, err = gcra.NewRate(f.capacity, f.count, f.period); err == nil {
			_, err = asks[i].Rate.Increment(f.quantity)
		}
		if failed = i; err != nil {
			break
		}
	}
	if err == nil {
		failed, err = c.ask(asks)
	}
	if err != nil {
		f, prefix := c.funnels[failed], "ERR "
		if len(c.funnels) > 1 {
			prefix += fmt.Sprintf("funnel %d: ", failed+1)
		}
		text := fmt.Sprintf("%s%v, not capacity %d, count %d, period %s, quantity %d",
			prefix, err, f.capacity, f.count, seconds(f.period), f.quantity)
		return append([]any{servertest.ErrorReply(text)}, c.untouched()...), "error"
	}

	limited, wait := gcra.Together(asks)
	kind = map[bool]string{false: "allowed", true: "limited"}[limited]
	switch {
	case wait == gcra.Never:
		kind = "never"
	case wait > 0 && !limited:
		kind = "waits"
	}
	rows, states := []any{}, c.untouched()
	for i, ask := range asks {
		d := ask.Decision
		rows = append(rows, []any{number(d.Limited), integer(d.Limit), integer(d.Remaining), seconds(d.Wait), seconds(d.ResetAfter)})
		if d.TAT == ask.TAT {
			continue
		}
		if d.TAT <= c.now {
			kind = "emptied"
		}
		states[2*i], states[2*i+1] = nil, int64(-2)
		// A server removes a key that it is told to expire before its own time.
		if expiry := gcra.Milliseconds(d.TAT); d.TAT > c.now && expiry > wallClock/1e6 {
			states[2*i], states[2*i+1] = strconv.FormatInt(d.TAT, 10), expiry
		}
	}
	return append([]any{[]any{number(limited), seconds(wait), rows}}, states...), kind
}

func (c scriptCall) ask(asks []gcra.Ask) (failed int, err error) {
	if c.command == "reserve" && len(asks) > 1 {
		return gcra.DecideAll(asks, c.now)
	}
	for i := range asks {
		switch c.command {
		case "reserve":
			err = asks[i].Reserve(c.now, c.maxWait)
		case "peek":
			err = asks[i].Peek(c.now)
		case "charge":
			err = asks[i].Charge(c.now)
		case "refund":
			err = asks[i].Refund(c.now)
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// untouched is value and expiry of each key before the call.
func (c scriptCall) untouched() (states []any) {
	for _, f := range c.funnels {
		if f.tat == noKey {
			states = append(states, nil, int64(-2))
		} else {
			states = append(states, strconv.FormatInt(f.tat, 10), int64(-1))
		}
	}
	return states
}

func number(isTrue bool) int64 { return map[bool]int64{true: 1}[isTrue] }

// integer is a number as the script replies it: a string if it has more than 15 digits.
func integer(number int64) any {
	if number >= 1e15 {
		return strconv.FormatInt(number, 10)
	}
	return number
}

// seconds writes nanoseconds as the commands take and reply them.
func seconds(nanoseconds int64) string {
	if nanoseconds == gcra.Never {
		return "-1"
	}
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// randomCall draws a call, mostly of one funnel.
func randomCall(random *rand.Rand, command string) scriptCall {
	c := scriptCall{command: command, now: randomNumber(random, math.MaxInt64)}
	if random.IntN(4) > 0 { // our times
		c.now = time.Date(2027+random.IntN(30), 1, 1, 0, 0, 0, random.IntN(1e9), time.UTC).UnixNano()
	}
	length := 1
	switch random.IntN(200) {
	case 0:
		length = 1 + random.IntN(64)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20:
		length = 2 + random.IntN(3)
	}
	// Of several funnels, each is mostly allowed, so that calls as a whole are both.
	for range length {
		c.funnels = append(c.funnels, randomFunnel(random, c.now, length > 1 && random.IntN(length) > 0))
	}
	if f := c.funnels[0]; length == 1 && command == "reserve" && random.IntN(2) == 0 {
		c.maxWait = randomNumber(random, math.MaxInt64)
		if tolerance := f.period / f.count * f.capacity; random.IntN(2) == 0 && f.tat > c.now && tolerance > 0 {
			over := uint64(f.tat-c.now) + uint64(f.period/f.count)*uint64(f.quantity) - uint64(tolerance)
			c.maxWait = max(0, int64(over)+int64(random.IntN(3))-1)
		}
	}
	return c
}

// randomFunnel draws numbers of every size, mostly such that funnels exist, and TATs where
// decisions change.
func randomFunnel(random *rand.Rand, now int64, allowed bool) scriptFunnel {
	f := scriptFunnel{
		capacity: randomNumber(random, math.MaxInt64),
		count:    randomNumber(random, math.MaxInt64),
		period:   randomNumber(random, math.MaxInt64),
		quantity: randomNumber(random, math.MaxInt64),
		tat:      randomNumber(random, math.MaxInt64),
	}
	if !allowed && random.IntN(20) == 0 {
		return f
	}
	short := random.IntN(3) > 0 // for the short part of the script, or a little beyond it
	most := int64(math.MaxInt64)
	if short {
		f.period = min(randomNumber(random, 2_000_000), 1_000_000) * 1e9
		most = 1_000_000_001
	}
	f.count = randomNumber(random, min(most, f.period))
	interval := f.period / f.count
	f.capacity = randomNumber(random, min(most, math.MaxInt64/interval))
	if short || random.IntN(2) == 0 { // a tolerance of around 2^53 nanoseconds at most
		f.capacity = randomNumber(random, min(most, max(1, 1<<54/interval)))
	}
	tolerance := interval * f.capacity
	f.quantity = randomNumber(random, f.capacity)
	if allowed {
		f.tat = noKey
		if random.IntN(2) == 0 {
			f.tat = int64(min(uint64(now)+uint64(tolerance-interval*f.quantity)/uint64(1+random.IntN(3)), math.MaxInt64))
		}
		return f
	}
	switch random.IntN(10) {
	case 0:
		f.quantity = 0
	case 1:
		f.quantity = min(f.capacity, math.MaxInt64-1) + 1
	case 2: // a charge beyond 63 bits, or nearly
		f.quantity = max(0, min((math.MaxInt64-now)/interval+int64(random.IntN(5)-2), math.MaxInt64/interval))
	}
	if random.IntN(4) == 0 {
		f.tat = noKey
		return f
	}
	increment := interval * min(f.quantity, math.MaxInt64/interval)
	near := int64(random.IntN(5) - 2) // a nanosecond at which something changes
	var level int64
	switch random.IntN(8) {
	case 0, 1: // it fits, or not
		level = max(0, tolerance-increment) + near
	case 2: // it is full, or emptied
		level = tolerance + near
	case 3:
		level = increment + near
	case 4: // overfull after a refund
		level = min(increment, math.MaxInt64-tolerance-2) + tolerance + near
	case 5: // 52 days
		level = 4_500_000_000_000_000 + near
	case 6:
		level = random.Int64N(max(tolerance, 1))
	case 7:
		level = randomNumber(random, math.MaxInt64) - 1000
	}
	f.tat = int64(min(uint64(max(0, now+min(level, 0)))+uint64(max(level, 0)), math.MaxInt64))
	return f
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
	hash := exchange(t, wire, []string{"script", "load", limiter.Script()})[0].(string)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	anyOf := func(texts []string) string { return texts[random.IntN(len(texts))] }
	now := time.Date(2100, 1, 1, 0, 0, 0, 123456789, time.UTC).UnixNano()
	outcomes := map[string]int{}
	cases := servertest.QuickOrLong(20_000, 1_000_000)
	for range cases {
		now += randomNumber(random, 10e9)
		instant := strconv.FormatInt(now, 10)
		command := anyOf([]string{"reserve", "peek", "charge", "refund"})
		length := 1
		if random.IntN(3) == 0 {
			length = 1 + random.IntN(3)
			if random.IntN(20) == 0 {
				length = 1 + random.IntN(64)
			}
		}
		var keys, funnels []string
		for i := range length {
			keys = append(keys, strconv.Itoa(i))
			funnels = append(funnels, "15", "30", "60", strconv.Itoa(random.IntN(5)))
		}
		if random.IntN(10) == 0 {
			keys[random.IntN(length)] = anyOf(keys)
		}
		if random.IntN(2) == 0 {
			funnels[random.IntN(len(funnels))] = anyOf(words)
		}
		maxWait := "0"
		if command == "reserve" && random.IntN(3) == 0 {
			maxWait = anyOf(words)
		}

		const script, module = "script:", "module:"
		commands := [][]string{{"funnel.debug", "clock", instant}}
		if random.IntN(2) == 0 {
			value := anyOf([]string{
				"", "0", instant, strconv.FormatInt(now+30e9, 10), strconv.FormatInt(now+28e9, 10), strconv.FormatInt(now+28e9+1, 10),
				"9223372036854775807", "9223372036854775808", "-1", "+1", "01", "1.5", "abc", "list", "none",
			})
			for _, prefix := range []string{script, module} {
				key := prefix + anyOf(keys[:1])
				commands = append(commands, []string{"del", key})
				switch value {
				case "none":
				case "list":
					commands = append(commands, []string{"lpush", key, "element"})
				default:
					commands = append(commands, []string{"set", key, value})
				}
			}
		}
		byModule := func(prefix string) []string {
			call := []string{"cl." + command}
			for i, key := range keys {
				call = append(append(call, prefix+key), funnels[4*i:4*i+4]...)
			}
			if command == "reserve" {
				call = append(call, maxWait)
			}
			return call
		}
		byScript := []string{"evalsha", hash, strconv.Itoa(length)}
		for _, key := range keys {
			byScript = append(byScript, script+key)
		}
		byScript = append(append(append(byScript, command), funnels...), maxWait, instant)
		if random.IntN(4) == 0 {
			byScript = byModule(script)
		}
		commands = append(commands, byModule(module), byScript)
		for _, key := range keys {
			for _, prefix := range []string{module, script} {
				commands = append(commands, []string{"get", prefix + key}, servertest.AskExpiry(t, prefix+key))
			}
		}

		replies := exchange(t, wire, commands...)
		states := replies[len(replies)-4*length:]
		reply := replies[len(replies)-4*length-2:][:2]
		// Of integers of more than 15 digits the script makes strings.
		if fmt.Sprint(reply[0]) != fmt.Sprint(reply[1]) {
			t.Fatalf("module:  %q\nreplies %v\nscript:  %q\nreplies %v", byModule(module), reply[0], byScript, reply[1])
		}
		for i := range length {
			require.Equal(t, states[4*i:4*i+2], states[4*i+2:4*i+4], "key %d of %q", i+1, byScript)
		}
		kind := command
		if text, isError := reply[0].(servertest.ErrorReply); isError {
			kind, _, _ = strings.Cut(string(text), " must")
			kind, _, _ = strings.Cut(kind, ", ")
			if _, reason, ofFunnel := strings.Cut(kind, ": "); ofFunnel && strings.HasPrefix(kind, "ERR funnel") {
				kind = "ERR funnel n: " + reason
			}
		}
		outcomes[kind]++
	}
	t.Logf("%d calls: %v", cases, outcomes)
	require.Greater(t, len(outcomes), 20)
}

func TestScriptSaysWhatItTakes(t *testing.T) {
	client := bare(t).Client(t)
	for _, c := range []struct {
		keys  string
		words string
	}{
		{"", "reserve"},
		{"k", ""},
		{"k", "reserve 15 30 60"},
		{"k", "reserve 15 30 60 1 0 1 1"},
		{"k", "RESERVE 15 30 60 1"},
		{"k", "throttle 15 30 60 1"},
		{"k l", "reserve 15 30 60 1"},
		{"k", "reserve 15 30 60 1 0 now"},
		{"k", "peek 15 30 60 1 1"},
		{"k", "charge 15 30 60 1 x"},
		{strings.Repeat("k ", 65), "reserve" + strings.Repeat(" 15 30 60 1", 65)},
	} {
		err := client.Eval(context.Background(), limiter.Script(), strings.Fields(c.keys), servertest.ToAny(strings.Fields(c.words))...).Err()
		require.ErrorContains(t, err, "ERR the script takes 1 to 64 keys, then reserve, peek, charge or refund", "%v", c)
	}
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
