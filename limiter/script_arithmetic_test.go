package limiter_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	var keys, words []string
	var after [][]string
	for i, f := range c.funnels {
		key := fmt.Sprint(number, ":", i)
		if f.tat != noKey {
			commands = append(commands, []string{"set", key, strconv.FormatInt(f.tat, 10)})
		}
		keys = append(keys, key)
		words = append(words, fmt.Sprint(f.capacity), fmt.Sprint(f.count), seconds(f.period), fmt.Sprint(f.quantity))
		after = append(after, []string{"get", key}, servertest.AskExpiry(t, key))
	}
	return append(append(commands, callScript(hash, keys, c.command, words, seconds(c.maxWait), c.now)), after...)
}

// callScript is a call of the script that has been loaded.
func callScript(hash string, keys []string, command string, words []string, maxWait string, now int64) []string {
	return slices.Concat([]string{"evalsha", hash, strconv.Itoa(len(keys))}, keys,
		[]string{command}, words, []string{maxWait, strconv.FormatInt(now, 10)})
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
	ask := map[string]func(*gcra.Ask) error{
		"reserve": func(a *gcra.Ask) error { return a.Reserve(c.now, c.maxWait) },
		"peek":    func(a *gcra.Ask) error { return a.Peek(c.now) },
		"charge":  func(a *gcra.Ask) error { return a.Charge(c.now) },
		"refund":  func(a *gcra.Ask) error { return a.Refund(c.now) },
	}[c.command]
	for i := range asks {
		if err := ask(&asks[i]); err != nil {
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
	length := randomLength(random)
	for range length {
		// Of several funnels, most are allowed, so that calls as a whole are both.
		c.funnels = append(c.funnels, randomFunnel(random, c.now, random.IntN(length) > 0))
	}
	if f := c.funnels[0]; length == 1 && command == "reserve" && random.IntN(2) == 0 {
		c.maxWait = randomNumber(random, math.MaxInt64)
		interval := f.period / f.count
		if over := max(0, f.tat-c.now) + interval*(f.quantity-f.capacity); random.IntN(2) == 0 { // it is enough, or not
			c.maxWait = max(0, over+int64(random.IntN(3))-1)
		}
	}
	return c
}

func randomLength(random *rand.Rand) int {
	switch random.IntN(200) {
	case 0:
		return 1 + random.IntN(64)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
		return 2 + random.IntN(3)
	}
	return 1
}

// randomFunnel draws numbers of every size, mostly such that funnels exist, and TATs where
// decisions change.
func randomFunnel(random *rand.Rand, now int64, allowed bool) (f scriptFunnel) {
	for _, number := range []*int64{&f.capacity, &f.count, &f.period, &f.quantity, &f.tat} {
		*number = randomNumber(random, math.MaxInt64)
	}
	if !allowed && random.IntN(20) == 0 {
		return f
	}
	most := int64(math.MaxInt64)
	if random.IntN(3) > 0 { // for the short part of the script, or a little beyond it
		f.period = min(randomNumber(random, 2_000_000), 1_000_000) * 1e9
		most = 1_000_000_001
	}
	f.count = randomNumber(random, min(most, f.period))
	interval := f.period / f.count
	f.capacity = randomNumber(random, min(most, math.MaxInt64/interval))
	if random.IntN(4) > 0 { // a tolerance of around 2^53 nanoseconds at most
		f.capacity = randomNumber(random, min(most, max(1, 1<<54/interval)))
	}
	f.quantity = randomNumber(random, f.capacity)
	switch kind := random.IntN(10); {
	case allowed || kind > 2:
	case kind == 0:
		f.quantity = 0
	case kind == 1:
		f.quantity = min(f.capacity, math.MaxInt64-1) + 1
	case kind == 2: // a charge beyond 63 bits, or nearly
		f.quantity = max(0, min((math.MaxInt64-now)/interval+int64(random.IntN(5)-2), math.MaxInt64/interval))
	}
	if random.IntN(4) == 0 {
		f.tat = noKey
		return f
	}
	tolerance, increment := interval*f.capacity, interval*min(f.quantity, math.MaxInt64/interval)
	room := max(0, tolerance-increment)
	level := []int64{
		room, room, // it fits, or not
		tolerance, // it is full, or emptied
		increment, // a refund empties it, or not
		min(increment, math.MaxInt64-tolerance) + tolerance, // it is overfull after a refund, or not
		4_500_000_000_000_000,                               // 52 days
		random.Int64N(tolerance), randomNumber(random, math.MaxInt64),
	}[random.IntN(8)]
	if level = max(0, level-2) + int64(random.IntN(5)); allowed {
		level = random.Int64N(room + 1)
	}
	f.tat = int64(min(uint64(now)+uint64(level), math.MaxInt64))
	if random.IntN(8) == 0 {
		f.tat = max(0, now-level)
	}
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
