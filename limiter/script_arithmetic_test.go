package limiter_test

import (
	"crypto/sha1"
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
	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// A scriptCall is one call of the script: in the words of the command, with what its keys
// hold, at a given time.
type scriptCall struct {
	command string
	words   []string
	stored  map[string]string
	now     int64
}

// leftToTheNextPart is the kind of a call that a part of the script does not decide.
const leftToTheNextPart = "left to the next part"

// The script decides, replies and stores what the contract says, to the nanosecond, over
// the whole range of 63 bits. Its errors are those of the module, letter by letter.
func TestScriptAgreesWithTheContract(t *testing.T) {
	met := map[string]bool{}
	for command, kinds := range map[string][]string{
		"reserve": {"allowed", "limited", "never", "waits", "error"},
		"take":    {"allowed", "limited", "in part", "error"},
		"peek":    {"allowed", "limited", "never", "error"},
		"charge":  {"allowed", "limited", "error"},
		"refund":  {"allowed", "limited", "emptied", "error"},
	} {
		t.Run(command, func(t *testing.T) {
			cases := servertest.QuickOrLong(5_000, 1_000_000)
			outcomes := compareScript(t, limiter.Script(), command, cases, byScript{})
			for _, kind := range kinds {
				require.Greater(t, outcomes[kind], cases/200, kind)
			}
			require.Zero(t, outcomes[leftToTheNextPart])
			for outcome := range outcomes {
				met[outcome] = true
			}

			// The second part decides every call without the first.
			outcomes = compareScript(t, readPart(t, "funnels_exact.lua"), command, cases/2, byScript{})
			require.Zero(t, outcomes[leftToTheNextPart])

			// The first part decides right or not at all, and never replies an error.
			outcomes = compareScript(t, readPart(t, "funnels_short.lua"), command, cases/2, byScript{})
			for _, kind := range append(kinds, leftToTheNextPart) {
				if kind != "error" {
					require.Greater(t, outcomes[kind], cases/1000, kind)
				}
			}
			require.Zero(t, outcomes["error"])
		})
	}
	for _, outcome := range contract.Outcomes {
		require.True(t, met[outcome] || outcome[0] > 'Z', "never met: %s", outcome)
	}
}

// What take.lua takes, and the client computes from its reply, is what the contract says, or it
// leaves the call to the complete script.
func TestTakeScriptAgreesWithTheContract(t *testing.T) {
	for command, kinds := range map[string][]string{
		"reserve": {"allowed", "limited", "never", "waits"},
		"take":    {"allowed", "limited", "in part"},
		"peek":    {"allowed", "limited", "never"},
	} {
		t.Run(command, func(t *testing.T) {
			cases := servertest.QuickOrLong(5_000, 1_000_000)
			outcomes := compareScript(t, limiter.TakeScript, command, cases, byTake{map[string]*limiter.TakeCall{}})
			for _, kind := range append(kinds, leftToTheNextPart) {
				require.Greater(t, outcomes[kind], cases/1000, kind)
			}
			require.Zero(t, outcomes["error"])
		})
	}
}

// A sending is how a script is called, and what its reply means.
type sending interface {
	words(call *scriptCall, hash string) []string
	read(call *scriptCall, reply any) any // as the command's, or nil if it decides nothing
}

// byScript calls the script that others load.
type byScript struct{}

func (byScript) words(call *scriptCall, hash string) []string { return call.evalsha(hash) }
func (byScript) read(_ *scriptCall, reply any) any            { return reply }

// byTake calls take.lua, as the client does.
type byTake struct{ calls map[string]*limiter.TakeCall }

func (b byTake) words(call *scriptCall, hash string) []string {
	operation := map[string]gcra.Operation{"reserve": gcra.Reserve, "take": gcra.Take, "peek": gcra.Peek}[call.command]
	number := func(at int) int { number, _ := strconv.Atoi(call.words[at]); return number }
	period, ok := contract.Seconds(call.words[3])
	if len(call.keys()) > 1 || !ok {
		return []string{"echo", ""}
	}
	maxWait := int64(0)
	if len(call.words) > 5 {
		wait, _ := contract.Seconds(call.words[5])
		maxWait = wait.Int64()
	}
	limit := limiter.Limit{Count: number(2), Period: time.Duration(period.Int64()), Capacity: number(1)}
	take := limiter.NewTakeCall(operation, limit, number(4), maxWait)
	if take == nil {
		return []string{"echo", ""}
	}
	b.calls[call.words[0]] = take
	words := append(append([]string{"evalsha", hash, "3"}, call.clock()...), call.words[0])
	for _, word := range take.Words() {
		words = append(words, fmt.Sprint(word))
	}
	return words
}

func (b byTake) read(call *scriptCall, reply any) any {
	if reply == nil || reply == "" {
		return nil
	}
	take := b.calls[call.words[0]]
	item, decided, err := take.Read(reply)
	if _, isError := reply.(servertest.ErrorReply); isError || err != nil {
		return reply
	}
	if !decided {
		return nil
	}
	decision := item.Decision
	limited := map[bool]int64{true: 1}[decision.Limited]
	wait := "-1"
	if decision.Wait >= 0 {
		wait = seconds(decision.Wait)
	}
	row := []any{limited, decision.Limit, decision.Remaining, wait, seconds(decision.ResetAfter), fmt.Sprint(decision.TAT)}
	whole := []any{limited, wait, []any{row}}
	if call.command == "take" {
		whole = append(whole, item.Taken)
	}
	return ofScript(whole)
}

func readPart(t *testing.T, name string) string {
	t.Helper()
	part, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(part)
}

// TestScriptIsItsParts: funnels.lua is what go generate makes, and the page tells its hash.
func TestScriptIsItsParts(t *testing.T) {
	require.True(t, readPart(t, "funnels_short.lua")+readPart(t, "funnels_exact.lua") == limiter.Script(), "funnels.lua is not of its parts: go generate ./limiter")
	hash := fmt.Sprintf("`%x`", sha1.Sum([]byte(limiter.Script())))
	require.Contains(t, readPart(t, "../docs/clients.md"), hash, "docs/clients.md tells the script's SHA-1")
}

// compareScript compares a script with the contract in random calls, and returns how many
// were of which kind.
func compareScript(t *testing.T, script, command string, cases int, how sending) (kinds map[string]int) {
	t.Helper()
	const batch = 500
	wire := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}).Wire(t)
	hash := exchange(t, wire, []string{"script", "load", limiter.WithClock(script)})[0].(string)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds = map[string]int{}
	for done := 0; done < cases; done += batch {
		calls := make([]scriptCall, batch)
		commands := [][]string{{"flushall"}, {"rpush", "list", "element"}}
		_, byWords := how.(byScript)
		for i := range calls {
			calls[i] = randomCall(random, command, i)
			if random.IntN(5) == 0 {
				calls[i].spoil(random, byWords)
			}
			commands = append(commands, calls[i].commands(t, how.words(&calls[i], hash))...)
		}
		replies := exchange(t, wire, commands...)[2:]
		wallClock := time.Now().UnixMilli()
		for _, call := range calls {
			length := 2 + 2*len(call.strings())
			got, byModule := replies[1:length], replies[length+1] // beside those of MSET and the clock
			replies = replies[length+2:]
			got[0] = how.read(&call, got[0])
			want, kind := call.expect(got[0] == nil, wallClock)
			if text, isError := got[0].(servertest.ErrorReply); isError && kind[0] <= 'Z' {
				require.Equal(t, byModule, got[0], "%+v", call)
				kinds["error"]++
				got[0] = contract.Error(text[:min(len(text), len(want[0].(contract.Error)))])
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v on a server at %d:\ngot  %v\nwant %v", call, wallClock, got, want)
			}
			kinds[kind]++
		}
	}
	t.Logf("%d calls: %v", cases, kinds)
	return kinds
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

func (c scriptCall) keys() (keys []string) {
	for i := 0; i+4 < len(c.words); i += 5 {
		keys = append(keys, c.words[i])
	}
	return keys
}

// strings are the keys that hold a string or nothing.
func (c scriptCall) strings() []string {
	return slices.DeleteFunc(c.keys(), func(key string) bool { return key == "list" })
}

// commands are one that stores the values, the call, and two for each key that ask what
// became of it. Then the module has its turn: after an error it finds what the call has found.
func (c scriptCall) commands(t *testing.T, call []string) [][]string {
	store := []string{"mset", "another", "value"}
	for key, value := range c.stored {
		store = append(store, key, value)
	}
	commands := [][]string{store, call}
	for _, key := range c.strings() {
		commands = append(commands, []string{"get", key}, servertest.AskExpiry(t, key))
	}
	return append(commands, []string{"funnel.debug", "clock", fmt.Sprint(c.now)}, c.byModule())
}

// evalsha is the call of a script that has been loaded.
func (c scriptCall) evalsha(hash string) []string {
	keys := c.keys()
	call := slices.Concat([]string{"evalsha", hash, strconv.Itoa(2 + len(keys))}, c.clock(), keys, []string{c.command})
	for i := range keys {
		call = append(call, c.words[5*i+1:5*i+5]...)
	}
	return append(call, c.words[5*len(keys):]...)
}

// clock is the time as TIME replies it.
func (c scriptCall) clock() []string {
	return []string{strconv.FormatInt(c.now/1e9, 10), strconv.FormatInt(c.now%1e9/1000, 10)}
}

// byModule is the same call of the module, which has a clock of its own.
func (c scriptCall) byModule() []string { return append([]string{"cl." + c.command}, c.words...) }

// expect is what the contract says: the reply, and then value and expiry of each key.
func (c scriptCall) expect(isLeft bool, wallClock int64) (want []any, kind string) {
	outcome := contract.Call(contract.Default, c.byModule(), c.now, func(key string) contract.Value {
		if value, is := c.stored[key]; is {
			return contract.Value{Type: "string", Text: value}
		}
		return contract.Value{Type: map[bool]string{true: "list"}[key == "list"]}
	})
	switch {
	case isLeft:
		outcome.Writes = nil
		want, kind = []any{nil}, leftToTheNextPart
	case outcome.Err != "":
		want, kind = []any{outcome.Err}, outcome.Name
	default:
		want, kind = []any{ofScript(outcome.Reply)}, kindOf(outcome)
	}
	for _, key := range c.strings() {
		value, expiry := any(nil), int64(-2)
		if stored, is := c.stored[key]; is {
			value, expiry = stored, -1
		}
		for _, write := range outcome.Writes {
			switch {
			case write.Key != key:
			case write.Expiry > wallClock:
				value, expiry = write.Value, write.Expiry
			default: // deleted, or, since a server does so, expired before its own time
				value, expiry = nil, -2
			}
		}
		want = append(want, value, expiry)
	}
	return want, kind
}

// ofScript is a reply as the script makes it: integers of more than 15 digits are strings.
func ofScript(reply any) any {
	switch reply := reply.(type) {
	case []any:
		for i := range reply {
			reply[i] = ofScript(reply[i])
		}
	case int64:
		if reply >= 1e15 {
			return strconv.FormatInt(reply, 10)
		}
	}
	return reply
}

func kindOf(outcome contract.Outcome) string {
	limited, wait := outcome.Reply[0] == int64(1), outcome.Reply[1]
	switch {
	case outcome.Name == contract.Partly:
		return "in part"
	case wait == "-1":
		return "never"
	case limited:
		return "limited"
	case wait != "0":
		return "waits"
	case slices.ContainsFunc(outcome.Writes, func(write contract.Write) bool { return write.Value == "" }):
		return "emptied"
	}
	return "allowed"
}

// seconds writes nanoseconds as the commands take them.
func seconds(nanoseconds int64) string {
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// randomCall draws a call, mostly of one funnel. Keys begin with the number.
func randomCall(random *rand.Rand, command string, number int) scriptCall {
	c := scriptCall{command: command, stored: map[string]string{}, now: randomNumber(random, math.MaxInt64)}
	if random.IntN(4) > 0 { // our times
		c.now = time.Date(2027+random.IntN(30), 1, 1, 0, 0, 0, random.IntN(1e9), time.UTC).UnixNano()
	} else if random.IntN(4) == 0 { // around the first and the last that take.lua takes
		c.now = []int64{1e18, 9e18}[random.IntN(2)] + 500*int64(random.IntN(5)-2)
	}
	c.now -= c.now % 1000 // servers have microseconds
	length, lastWord := randomLength(random), ""
	if command == "take" {
		length = 1
	}
	for i := range length {
		// Of several funnels, most are allowed, or hardly a call as a whole would be.
		f := randomFunnel(random, c.now, random.IntN(length) > 0)
		key := fmt.Sprint(number, ":", i)
		c.words = append(c.words, key, fmt.Sprint(f.capacity), fmt.Sprint(f.count), seconds(f.period), fmt.Sprint(f.quantity))
		if f.tat != noKey {
			c.stored[key] = fmt.Sprint(f.tat)
		}
		if length > 1 || random.IntN(2) == 0 {
			continue
		}
		word, over := randomNumber(random, math.MaxInt64), max(0, f.tat-c.now)+f.period/f.count*(f.quantity-f.capacity)
		switch dice := random.IntN(3); command {
		case "reserve":
			if dice > 0 { // it is enough, or not
				word = max(0, over+int64(random.IntN(3))-1)
			}
			if random.IntN(2) == 0 { // for the short part
				word = max(0, over)%1e15/1e9*1e9 + int64(random.IntN(2))*1e9
			}
			lastWord = seconds(word)
		case "refund":
			if dice > 0 { // what is left is more than what is given back, or not
				word = c.now + f.period/f.count*min(f.quantity, f.capacity)*int64(dice-1) + int64(random.IntN(5)) - 2
			}
			lastWord = fmt.Sprint(max(0, word))
		}
	}
	if lastWord != "" {
		c.words = append(c.words, lastWord)
	}
	return c
}

// Words and stored values that are no numbers, or are at the ends of a range. Lua reads some
// forms that the commands refuse.
var (
	oddWords = []string{
		"1", "0", "-1", "+1", "01", "00", "", " 1", "1 ", "1x", "x", "0x10", "1e3", "1.0", ".5", "0.5", "5.", "0.", ".", "..", "1.2.3",
		"0.000000001", "0.0000000001", "0.1234567890", "1.999999999", "-0.5", "nan", "inf",
		"9223372036854775807", "9223372036854775808", "9999999999999999999", "10000000000000000000",
		"9223372036", "9223372036.854775807", "9223372036.854775808", "9223372037", "09223372036.8", "99999999999",
		"9007199254740992", "9007199254740993", "1000000", "999999", "123456789012345", "1234567890123456",
		"\x00", "1\x00", "a\r\nb", "%d", "\xff", strings.Repeat("7", 40), strings.Repeat("x", 41), strings.Repeat("\n", 100),
	}
	oddValues = []string{
		"", "0", "9223372036854775807", "9223372036854775808", "-1", "+1", "01", "1.5", "abc",
		"1795365029 46200000", " 179536502946200000", "0x95365029462000000", "179536502946200000x", "1.95365029462000000",
		"1e0             1e0", "179536502946200000", "17953650294620000000", "0795365029462000000",
	}
)

// spoil makes a call odd: by what a key holds, or, where byWords says that words are sent as
// they are, by these.
func (c *scriptCall) spoil(random *rand.Rand, byWords bool) {
	keys, kind := c.keys(), random.IntN(2)
	if byWords {
		kind = random.IntN(min(8, 4+len(keys))) // more often what concerns several
	}
	anyOf := func(texts []string) string { return texts[random.IntN(len(texts))] }
	switch key := random.IntN(len(keys)); kind {
	case 0:
		c.stored[keys[key]] = anyOf(oddValues)
	case 1:
		c.words[5*key] = "list"
	case 2:
		c.words[5*key+1+random.IntN(4)] = anyOf(oddWords)
	case 3:
		c.words = append(c.words, anyOf(oddWords))
	case 4:
		c.words = append(c.words, "1")
	default:
		c.words[5*key] = anyOf(keys)
	}
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

// A scriptFunnel is one funnel of a call, in numbers.
type scriptFunnel struct{ capacity, count, period, quantity, tat int64 }

// noKey is the tat of a funnel that is not stored.
const noKey = -1

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
		9_000_000_000_000_000 + random.Int64N(1e13),         // around 2^53
		random.Int64N(tolerance), randomNumber(random, math.MaxInt64),
	}[random.IntN(9)]
	if level = max(0, level-2) + int64(random.IntN(5)); allowed {
		level = random.Int64N(room + 1)
	}
	f.tat = int64(min(uint64(now)+uint64(level), math.MaxInt64))
	switch random.IntN(8) {
	case 0:
		f.tat = max(0, now-level)
	case 1: // around a millisecond, after the call
		f.tat = max(0, f.tat-(f.tat%1e6+increment%1e6)%1e6+int64(random.IntN(3))-1)
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
