// Within its range each script decides, replies and stores what the contract says, to the nanosecond. Beyond it, take.lua
// leaves the call to the complete script, and that says so and names the module.

package limiter_test

import (
	"crypto/sha1"
	"fmt"
	"math"
	"math/big"
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

// A scriptCall is a call in the words of the command, with what its keys hold, at a given time.
type scriptCall struct {
	command string
	words   []string
	stored  map[string]string
	now     int64
}

// What scripts do not decide.
const left, beyond = "left to the complete script", "beyond the script"

func TestScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, limiter.Script(), map[string][]string{
		"reserve": {"allowed", "limited", "never", "waits", "error", beyond},
		"take":    {"allowed", "limited", "in part", "error", beyond},
		"peek":    {"allowed", "limited", "never", "error", beyond},
		"charge":  {"allowed", "limited", "error", beyond},
		"refund":  {"allowed", "limited", "emptied", "error", beyond},
	})
	for _, outcome := range contract.Outcomes {
		isError := outcome[0] <= 'Z'
		require.True(t, met[outcome] > 0 || !isError, "never met: %s", outcome)
	}
}

// The client computes the rest of the reply from what take.lua replies.
func TestTakeScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, limiter.TakeScript, map[string][]string{
		"reserve": {"allowed", "limited", "never", "waits", left},
		"take":    {"allowed", "limited", "in part", left},
		"peek":    {"allowed", "limited", "never", left},
	})
	require.Zero(t, met["error"])
}

// evalTake calls take.lua as the client does, which leaves some calls to the complete script.
func (c scriptCall) evalTake(hash string) (*limiter.TakeCall, []string) {
	operation := map[string]gcra.Operation{"reserve": gcra.Reserve, "take": gcra.Take, "peek": gcra.Peek}[c.command]
	number := func(at int) int { number, _ := strconv.Atoi(c.words[at]); return number }
	period, ok := contract.Seconds(c.words[3])
	if !ok || len(c.keys()) > 1 {
		return nil, []string{"get", ""}
	}
	maxWait, _ := contract.Seconds(append(c.words, "0")[5])
	limit := limiter.Limit{Count: number(2), Period: time.Duration(period.Int64()), Capacity: number(1)}
	take := limiter.NewTakeCall(operation, limit, number(4), maxWait.Int64())
	if take == nil {
		return nil, []string{"get", ""}
	}
	return take, c.evalsha(hash, c.keys(), strings.Fields(fmt.Sprintln(take.Words()...))...)
}

// readTake makes the command's reply of one of take.lua, or nil if it decides nothing.
func (c scriptCall) readTake(take *limiter.TakeCall, reply any) any {
	if reply == nil {
		return nil
	}
	item, decided, err := take.Read(reply)
	if _, isError := reply.(servertest.ErrorReply); isError || err != nil {
		return reply
	}
	if !decided {
		return nil
	}
	decision := item.Decision
	limited, wait := map[bool]int64{true: 1}[decision.Limited], "-1"
	if decision.Wait >= 0 {
		wait = seconds(decision.Wait)
	}
	row := []any{limited, decision.Limit, decision.Remaining, wait, seconds(decision.ResetAfter), fmt.Sprint(decision.TAT)}
	whole := []any{limited, wait, []any{row}}
	if c.command == "take" {
		whole = append(whole, item.Taken)
	}
	return ofScript(whole)
}

func TestPageTellsTheHashAndSizeOfTheScript(t *testing.T) {
	page, err := os.ReadFile("../docs/clients.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("`%x`", sha1.Sum([]byte(limiter.Script()))))
	require.Contains(t, string(page), fmt.Sprintf(" %d,%03d bytes", len(limiter.Script())/1000, len(limiter.Script())%1000))
}

// compareScript makes random calls of these commands, and returns how many were of which kind: for each
// command also of those listed.
func compareScript(t *testing.T, script string, commands map[string][]string) (met map[string]int) {
	t.Helper()
	met = map[string]int{}
	t.Parallel()
	wire := shared(t, limiter.PathScript).Wire(t)
	exchange(t, wire, []string{"select", fmt.Sprint(ownDatabase())})
	hash := exchange(t, wire, []string{"script", "load", limiter.WithClock(script)})[0].(string)
	cases, seed := servertest.QuickOrLong(10_000, 1_000_000), rand.Uint64()
	for command, kinds := range commands {
		random, counts := rand.New(rand.NewPCG(seed, 0)), map[string]int{}
		for done := 0; done < cases; done += 500 {
			compareCalls(t, wire, hash, script == limiter.Script(), command, random, counts)
		}
		t.Logf("seed %d: %d calls of %s: %v", seed, cases, command, counts)
		for _, kind := range kinds {
			require.Greater(t, counts[kind], cases/1000, kind)
		}
		for kind, count := range counts {
			met[kind] += count
		}
	}
	return met
}

// compareCalls compares 500 calls, and counts them by kind.
func compareCalls(t *testing.T, wire *servertest.Wire, hash string, complete bool, command string, random *rand.Rand, counts map[string]int) {
	t.Helper()
	var calls [500]scriptCall
	var takes [500]*limiter.TakeCall
	commands := [][]string{{"flushdb"}, {"rpush", "list", "element"}}
	for i := range calls {
		calls[i] = randomCall(random, command, i)
		if random.IntN(5) == 0 {
			calls[i].spoil(random, complete)
		}
		call := calls[i].complete(hash)
		if !complete {
			takes[i], call = calls[i].evalTake(hash)
		}
		commands = append(commands, calls[i].commands(t, call)...)
	}
	replies := exchange(t, wire, commands...)[2:]
	wallClock := time.Now().UnixMilli()
	for i, call := range calls {
		length := 2 + 2*len(call.strings())
		got := replies[1:length] // the reply of MSET is before these
		replies = replies[length:]
		if !complete {
			got[0] = call.readTake(takes[i], got[0])
		}
		want, kind := call.expect(complete, got[0] == nil, wallClock)
		counts[kind]++
		if text, isError := got[0].(servertest.ErrorReply); isError {
			counts["error"]++
			require.True(t, kind != beyond || strings.Contains(string(text), "load the module funnel"), text)
			if wanted, is := want[0].(contract.Error); is { // which tells how an error begins
				got[0] = contract.Error(text[:min(len(text), len(wanted))])
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v on a server at %d:\ngot  %v\nwant %v", call, wallClock, got, want)
		}
	}
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

// commands store the values, call, and ask for value and expiry of each key.
func (c scriptCall) commands(t *testing.T, call []string) [][]string {
	store := []string{"mset", "another", "value"}
	for key, value := range c.stored {
		store = append(store, key, value)
	}
	commands := [][]string{store, call}
	for _, key := range c.strings() {
		commands = append(commands, []string{"get", key}, servertest.AskExpiry(t, key))
	}
	return commands
}

// evalsha calls a script with the clock and these keys.
func (c scriptCall) evalsha(hash string, keys []string, words ...string) []string {
	clock := []string{strconv.FormatInt(c.now/1e9, 10), strconv.FormatInt(c.now%1e9/1000, 10)} // as TIME replies it
	return slices.Concat([]string{"evalsha", hash, strconv.Itoa(2 + len(keys))}, clock, keys, words)
}

// complete calls the complete script.
func (c scriptCall) complete(hash string) []string {
	words, keys := []string{c.command}, c.keys()
	for i := range keys {
		words = append(words, c.words[5*i+1:5*i+5]...)
	}
	return c.evalsha(hash, keys, append(words, c.words[5*len(keys):]...)...)
}

// expect is what the contract says: the reply, and then value and expiry of each key.
func (c scriptCall) expect(complete, isLeft bool, wallClock int64) (want []any, kind string) {
	outcome := contract.Call(contract.Default, append([]string{"cl." + c.command}, c.words...), c.now, func(key string) contract.Value {
		if value, is := c.stored[key]; is {
			return contract.Value{Type: "string", Text: value}
		}
		return contract.Value{Type: map[bool]string{true: "list"}[key == "list"]}
	})
	refusal := contract.Error("")
	if complete && outcome.Name != string(contract.ErrArity) {
		refusal = c.refusal()
	}
	switch {
	case isLeft:
		want, kind, outcome.Writes = []any{nil}, left, nil
	case refusal != "":
		want, kind, outcome.Writes = []any{refusal}, beyond, nil
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

// refusal is how the error begins of a call beyond the range of the complete script: the contract's rule in
// integers of any size. Rows are read from the left; what no command accepts or computes comes first.
func (c scriptCall) refusal() contract.Error {
	for i := range c.keys() {
		capacity, ok1 := contract.Integer(1, c.words[5*i+1])
		count, ok2 := contract.Integer(1, c.words[5*i+2])
		period, ok3 := contract.Seconds(c.words[5*i+3])
		quantity, ok4 := contract.Integer(0, c.words[5*i+4])
		if !ok1 || !ok2 || !ok3 || !ok4 || period.Sign() == 0 {
			return ""
		}
		interval, names := new(big.Int).Div(period, count), []string{"count", "capacity", "quantity"}
		if c.command == "take" {
			names = names[:2]
		}
		for j, name := range names {
			number := []*big.Int{count, capacity, quantity}[j]
			time := period
			if j > 0 {
				time = new(big.Int).Mul(interval, number)
			}
			if number.Cmp(big.NewInt(mostTokens)) > 0 && time.Cmp(big.NewInt(days104)) >= 0 {
				row := map[bool]string{true: fmt.Sprintf("row %d: ", i+1)}[len(c.keys()) > 1]
				return contract.Error("ERR " + row + name + " and period are too large together for the script: ")
			}
			if interval.Sign() == 0 || !time.IsInt64() {
				return ""
			}
		}
	}
	return ""
}

// ofScript is a reply as the script makes it: integers of more than 15 digits are strings.
func ofScript(reply any) any {
	if row, is := reply.([]any); is {
		for i := range row {
			row[i] = ofScript(row[i])
		}
	}
	if number, is := reply.(int64); is && number >= 1e15 {
		return strconv.FormatInt(number, 10)
	}
	return reply
}

func kindOf(outcome contract.Outcome) string {
	switch wait := outcome.Reply[1]; {
	case outcome.Name == contract.Partly:
		return "in part"
	case wait == "-1":
		return "never"
	case outcome.Reply[0] == int64(1):
		return "limited"
	case wait != "0":
		return "waits"
	case len(outcome.Writes) > 0 && outcome.Writes[0].Value == "":
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
	length, lastWord := 1, ""
	if dice := random.IntN(200); dice < 16 && command != "take" {
		length = 2 + random.IntN(3)
		if dice == 0 {
			length = 1 + random.IntN(64)
		}
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
			lastWord = seconds(word)
		case "refund":
			if dice > 0 { // what is left is more than what is given back, or not
				word = c.now + f.period/f.count*min(f.quantity, f.capacity)*int64(dice-1) + int64(random.IntN(5)) - 2
			}
			lastWord = fmt.Sprint(max(0, word))
		}
	}
	if length > 1 && random.IntN(4) == 0 && (command == "reserve" || command == "refund") {
		lastWord = "5" // which is for one funnel
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

// spoil makes a call odd: by what a key holds, or, where words are sent as they are, by these.
func (c *scriptCall) spoil(random *rand.Rand, byWords bool) {
	keys, kinds := c.keys(), 2
	if byWords {
		kinds = min(8, 4+len(keys)-1) // more often what concerns several
	}
	anyOf := func(texts []string) string { return texts[random.IntN(len(texts))] }
	switch key := random.IntN(len(keys)); random.IntN(kinds) {
	case 0:
		c.stored[keys[key]] = anyOf(oddValues)
	case 1:
		c.words[5*key] = "list"
	case 2:
		c.words[5*key+1+random.IntN(4)] = anyOf(oddWords)
	case 3:
		c.words = append(c.words, anyOf(append(oddWords, "1", "1", "1")))
	default:
		c.words[5*key] = anyOf(keys)
	}
}

// A scriptFunnel is one funnel of a call, in numbers.
type scriptFunnel struct{ capacity, count, period, quantity, tat int64 }

// noKey is the tat of a funnel that is not stored.
const noKey = -1

// The bounds of the complete script: the largest number with any time, and 104 days.
const mostTokens, days104 = 4_000_000, 104 * 24 * 60 * 60 * 1_000_000_000

// randomFunnel draws numbers of every size, mostly such that funnels exist within the range of the
// scripts or just beyond, and TATs where decisions change.
func randomFunnel(random *rand.Rand, now int64, allowed bool) (f scriptFunnel) {
	for _, number := range []*int64{&f.capacity, &f.count, &f.period, &f.quantity, &f.tat} {
		*number = randomNumber(random, math.MaxInt64)
	}
	if !allowed && random.IntN(20) == 0 {
		return f
	}
	switch random.IntN(4) {
	case 0, 1: // whole seconds
		f.period = randomNumber(random, 1_000_000) * 1e9
	case 2:
		f.period = about(random, days104)
	}
	f.count = randomTokens(random, f.period, days104/f.period*f.period)
	interval := f.period / f.count
	f.capacity = randomTokens(random, math.MaxInt64/interval, days104/interval)
	f.quantity = randomNumber(random, f.capacity)
	if kind := random.IntN(10); kind < 4 && !allowed {
		f.quantity = []int64{0, min(f.capacity, math.MaxInt64-1) + 1,
			max(0, min((math.MaxInt64-now)/interval+int64(random.IntN(5)-2), math.MaxInt64/interval)), // a charge beyond 63 bits, or nearly
			randomTokens(random, math.MaxInt64/interval, days104/interval)}[kind]
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
		interval * random.Int64N(f.capacity),                // another token remains, or not
		interval * random.Int64N(f.capacity),
		4_500_000_000_000_000,                       // 52 days
		9_000_000_000_000_000 + random.Int64N(1e13), // around 2^53
		random.Int64N(tolerance), randomNumber(random, math.MaxInt64),
	}[random.IntN(11)]
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

// randomTokens draws a number up to most: often one that the complete script takes with any time, or
// for which that time is up to 104 days, and often one where this ends.
func randomTokens(random *rand.Rand, most, in104Days int64) int64 {
	some := randomNumber(random, max(1, in104Days))
	number := []int64{randomNumber(random, most), randomNumber(random, mostTokens), some, some,
		about(random, mostTokens), about(random, in104Days)}[random.IntN(6)]
	return max(1, min(number, most))
}

// about draws a number that is at most 2 away.
func about(random *rand.Rand, number int64) int64 { return max(1, number-2+random.Int64N(5)) }

// randomNumber draws a number from 1 to most, of any number of bits, or one around a
// power of 2 or 10.
func randomNumber(random *rand.Rand, most int64) int64 {
	size := bits.Len64(uint64(most))
	number := random.Int64N(most) >> random.IntN(size)
	switch random.IntN(6) {
	case 0:
		number = about(random, 1<<random.IntN(size))
	case 1:
		number = about(random, int64(math.Pow10(random.IntN(size*18/63+1))))
	case 2:
		number = int64(random.IntN(100))
	}
	return max(1, min(number, most))
}
