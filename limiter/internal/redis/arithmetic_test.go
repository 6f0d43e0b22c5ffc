// Within its range each script decides, replies and stores what the contract says, to the nanosecond. Beyond it,
// take.lua leaves the call to the complete script, and that says so and names the module. The fuzzer of test/model has
// calls of several funnels, slots and odd words.

package redis_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/internal/redis"
)

// A scriptCall is a call of one funnel, also in the words of the command, at a given time.
type scriptCall struct {
	scriptFunnel
	command string
	words   []string
	stored  []string // the key and its value, or nothing
	now     int64
}

// What scripts do not decide.
const left, beyond = "left to the complete script", "beyond the script"

func TestScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, limiter.Script(), "reserve", "take", "peek", "charge", "refund")
	for _, outcome := range append(contract.Outcomes[:8:8], beyond) {
		require.Positive(t, met[outcome], "never met: %s", outcome)
	}
	for _, err := range []contract.Error{contract.ErrEmissionInterval, contract.ErrTolerance, contract.ErrIncrement,
		contract.ErrType, contract.ErrFunnel, contract.ErrTAT} {
		require.Positive(t, met[string(err)], "never met: %s", err)
	}
}

// The client computes the rest of the reply from what take.lua replies.
func TestTakeScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, redis.TakeScript, "reserve", "take", "peek")
	for _, outcome := range append(contract.Outcomes[:6:6], left) { // the outcomes of these commands
		require.Greater(t, met[outcome], 30, outcome)
	}
}

// evalTake calls take.lua as the client does, which leaves some calls to the complete script.
func (c scriptCall) evalTake(hash string) (*redis.TakeCall, []string) {
	operation := map[string]call.Operation{"reserve": call.Reserve, "take": call.Take, "peek": call.Peek}[c.command]
	maxWait, _ := contract.Seconds(append(c.words, "0")[5])
	take := redis.NewTakeCall(operation, c.capacity, c.count, c.period, c.quantity, maxWait.Int64())
	if take == nil {
		return nil, []string{"get", ""}
	}
	return take, c.evalsha(hash, strings.Fields(fmt.Sprintln(take.Words()...))...)
}

// readTake makes the command's reply of one of take.lua, or nil if it decides nothing.
func (c scriptCall) readTake(take *redis.TakeCall, reply any) any {
	if reply == nil {
		return nil
	}
	decision, decided, err := take.Read(reply)
	if _, isError := reply.(servertest.ErrorReply); isError || err != nil {
		return reply
	}
	if !decided {
		return nil
	}
	limited, wait := map[bool]int64{true: 1}[decision.Limited], "-1"
	if decision.Wait >= 0 {
		wait = seconds(int64(decision.Wait))
	}
	row := []any{limited, c.capacity, decision.Remaining, wait, seconds(int64(decision.ResetAfter)),
		fmt.Sprint(decision.Receipt)}
	whole := []any{limited, wait, []any{row}}
	if c.command == "take" {
		whole = append(whole, decision.Taken)
	}
	return ofScript(whole)
}

// compareScript makes random calls of these commands, and returns how many came to which outcome.
func compareScript(t *testing.T, script string, commands ...string) (met map[string]int) {
	t.Helper()
	t.Parallel()
	met = map[string]int{}
	wire := servertest.Start(t, servertest.Options{Config: []string{"--save", ""}}).Wire(t)
	hash := exchange(t, wire, []string{"script", "load", redis.WithClock(script)})[0].(string)
	cases, seed := servertest.QuickOrLong(10_000, 1_000_000), rand.Uint64()
	t.Logf("seed %d: %d calls of each command", seed, cases)
	for _, command := range commands {
		random := rand.New(rand.NewPCG(seed, 0))
		for done := 0; done < cases; done += 500 {
			compareCalls(t, wire, hash, script == limiter.Script(), command, random, met)
		}
	}
	return met
}

// compareCalls compares 500 calls, and counts their outcomes.
func compareCalls(t *testing.T, wire *servertest.Wire, hash string, complete bool, command string, random *rand.Rand,
	met map[string]int) {
	t.Helper()
	var calls [500]scriptCall
	var takes [500]*redis.TakeCall
	commands := [][]string{{"flushdb"}, {"rpush", "list", "element"}}
	for i := range calls {
		calls[i] = randomCall(random, command, i)
		if random.IntN(5) == 0 {
			calls[i].spoil(random)
		}
		call := calls[i].evalsha(hash, append([]string{command}, calls[i].words[1:]...)...)
		if !complete {
			takes[i], call = calls[i].evalTake(hash)
		}
		key := calls[i].words[0]
		store := append([]string{"mset", "another", "value"}, calls[i].stored...)
		commands = append(commands, store, call, []string{"get", key}, servertest.AskExpiry(t, key))
	}
	replies := exchange(t, wire, commands...)[2:]
	wallClock := time.Now().UnixMilli()
	for i, call := range calls {
		got := replies[4*i+1 : 4*i+4] // the reply of MSET is before these
		if !complete {
			got[0] = call.readTake(takes[i], got[0])
		}
		want, outcome := call.expect(complete, got[0], wallClock)
		met[outcome]++
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v on a server at %d:\ngot  %v\nwant %v", call, wallClock, got, want)
		}
	}
}

func exchange(t *testing.T, wire *servertest.Wire, commands ...[]string) (replies []any) {
	err := servertest.CallMany(wire, len(commands), func(i int) []string { return commands[i] },
		func(_ int, reply any) error {
			replies = append(replies, reply)
			return nil
		})
	require.NoError(t, err)
	return replies
}

// evalsha calls a script with the clock and the key.
func (c scriptCall) evalsha(hash string, words ...string) []string {
	clock := []string{strconv.FormatInt(c.now/1e9, 10), strconv.FormatInt(c.now%1e9/1000, 10)} // as TIME replies it
	return slices.Concat([]string{"evalsha", hash, "3"}, clock, c.words[:1], words)
}

// expect is what the contract says: the reply, and then value and expiry of the key. It names the outcome.
func (c scriptCall) expect(complete bool, got any, wallClock int64) (want []any, name string) {
	outcome := contract.Run(contract.Default, append([]string{"cl." + c.command}, c.words...), c.now,
		func(key string) contract.Value {
			if c.stored != nil {
				return contract.Value{Type: "string", Text: c.stored[1]}
			}
			return contract.Value{Type: map[bool]string{true: "list"}[key == "list"]}
		})
	text, _ := got.(servertest.ErrorReply)
	const tooLarge = " and period are too large together for the script: "
	isRefused := strings.Contains(string(text), tooLarge)
	switch want, name = []any{ofScript(outcome.Reply)}, outcome.Name; {
	case !complete && got == nil:
		want, name, outcome.Writes = []any{nil}, left, nil
	case complete && c.isBeyond() && (isRefused || outcome.Err == ""):
		name, outcome.Err, outcome.Writes = beyond, tooLarge, nil
	}
	if name != left && outcome.Err != "" {
		want[0] = outcome.Err
		if complete && strings.Contains(string(text), string(outcome.Err)) { // it goes on
			want[0] = text
		}
	}
	value, expiry := any(nil), int64(-2)
	if c.stored != nil {
		value, expiry = c.stored[1], -1
	} else if c.words[0] == "list" {
		value, expiry = servertest.ErrorReply(contract.ErrType), -1
	}
	for _, write := range outcome.Writes {
		if value, expiry = write.Value.Text, write.Value.Expiry; expiry <= wallClock {
			value, expiry = nil, -2 // deleted, or, since a server does so, expired before its own time
		}
	}
	return append(want, value, expiry), name
}

// isBeyond reports whether the call is beyond the range of the complete script, whatever else is wrong: a number
// above 4,000,000 makes a time of 104 days or more.
func (c scriptCall) isBeyond() bool {
	interval := c.period / c.count
	isLarge := func(number int64) bool { return number > maxTokens && interval > (days104-1)/number }
	return c.count > maxTokens && c.period >= days104 || isLarge(c.capacity) || c.command != "take" && isLarge(c.quantity)
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

// seconds writes nanoseconds as the commands take them.
func seconds(nanoseconds int64) string {
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// randomCall draws a call of the key with that number.
func randomCall(random *rand.Rand, command string, number int) scriptCall {
	c := scriptCall{command: command, now: randomNumber(random, math.MaxInt64)}
	if random.IntN(4) > 0 { // our times
		c.now = time.Date(2027+random.IntN(30), 1, 1, 0, 0, 0, random.IntN(1e9), time.UTC).UnixNano()
	} else if random.IntN(4) == 0 { // around the first and the last that take.lua takes
		c.now = []int64{1e18, 9e18}[random.IntN(2)] + 500*int64(random.IntN(5)-2)
	}
	c.now -= c.now % 1000 // servers have microseconds
	f := randomFunnel(random, c.now)
	key := fmt.Sprint(number)
	c.scriptFunnel = f
	c.words = []string{key, fmt.Sprint(f.capacity), fmt.Sprint(f.count), seconds(f.period), fmt.Sprint(f.quantity)}
	if f.tat != noKey {
		c.stored = []string{key, fmt.Sprint(f.tat)}
	}
	if random.IntN(2) == 0 {
		return c
	}
	word, over := randomNumber(random, math.MaxInt64), max(0, f.tat-c.now)+f.period/f.count*(f.quantity-f.capacity)
	switch dice := random.IntN(3); command {
	case "reserve":
		if dice > 0 { // it is enough, or not
			word = max(0, over+int64(random.IntN(3))-1)
		}
		c.words = append(c.words, seconds(word))
	case "refund":
		if dice > 0 { // about all of the tokens have leaked, or about none
			word = c.now + f.period/f.count*min(f.quantity, f.capacity)*int64(dice-1) + int64(random.IntN(5)) - 2
		}
		c.words = append(c.words, fmt.Sprint(max(0, word)))
	}
	return c
}

// Stored values that are no numbers, or are at the ends of a range. Lua reads some forms that the commands refuse.
var oddValues = []string{
	"", "0", "9223372036854775807", "9223372036854775808", "-1", "01", "1.5", "1795365029 46200000",
	" 179536502946200000", "0x95365029462000000", "179536502946200000x", "1.95365029462000000",
	"1e0             1e0", "179536502946200000", "17953650294620000000", "0795365029462000000",
}

// spoil makes a call odd by what its key holds.
func (c *scriptCall) spoil(random *rand.Rand) {
	if random.IntN(2) == 0 {
		c.stored = []string{c.words[0], oddValues[random.IntN(len(oddValues))]}
	} else {
		c.words[0], c.stored = "list", nil
	}
}

// A scriptFunnel is the funnel of a call, in numbers.
type scriptFunnel struct{ capacity, count, period, quantity, tat int64 }

// noKey is the tat of a funnel that is not stored.
const noKey = -1

// The bounds of the complete script: the largest number with any time, and 104 days.
const maxTokens, days104 = 4_000_000, 104 * 24 * 60 * 60 * 1_000_000_000

// randomFunnel draws numbers of every size, mostly such that funnels exist within the range of the
// scripts or just beyond, and TATs where decisions change.
func randomFunnel(random *rand.Rand, now int64) (f scriptFunnel) {
	for _, number := range []*int64{&f.capacity, &f.count, &f.period, &f.quantity, &f.tat} {
		*number = randomNumber(random, math.MaxInt64)
	}
	if random.IntN(20) == 0 {
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
	if kind := random.IntN(10); kind < 4 {
		f.quantity = []int64{0, min(f.capacity, math.MaxInt64-1) + 1,
			max(0, min((math.MaxInt64-now)/interval+int64(random.IntN(5)-2),
				math.MaxInt64/interval)), // a charge beyond 63 bits, or nearly
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
	level = max(0, level-2) + int64(random.IntN(5))
	f.tat = int64(min(uint64(now)+uint64(level), math.MaxInt64))
	switch random.IntN(8) {
	case 0:
		f.tat = max(0, now-level)
	case 1: // around a millisecond, after the call
		f.tat = max(0, f.tat-(f.tat%1e6+increment%1e6)%1e6+int64(random.IntN(3))-1)
	}
	return f
}

// randomTokens draws a number up to most: often a number that the complete script takes with any time, or
// for which that time is up to 104 days, and often one where this ends.
func randomTokens(random *rand.Rand, most, in104Days int64) int64 {
	some := randomNumber(random, max(1, in104Days))
	number := []int64{randomNumber(random, most), randomNumber(random, maxTokens), some, some,
		about(random, maxTokens), about(random, in104Days)}[random.IntN(6)]
	return max(1, min(number, most))
}

func about(random *rand.Rand, number int64) int64 { return max(1, number-2+random.Int64N(5)) }

// randomNumber draws a number from 1 to largest, of any number of bits, or one around a
// power of 2 or 10.
func randomNumber(random *rand.Rand, largest int64) int64 {
	size := bits.Len64(uint64(largest))
	number := random.Int64N(largest) >> random.IntN(size)
	switch random.IntN(6) {
	case 0:
		number = about(random, 1<<random.IntN(size))
	case 1:
		number = about(random, int64(math.Pow10(random.IntN(size*18/63+1))))
	case 2:
		number = int64(random.IntN(100))
	}
	return max(1, min(number, largest))
}
