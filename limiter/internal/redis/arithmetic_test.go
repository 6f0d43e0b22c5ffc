// Within its range, each script decides, replies and stores as the contract says, to the
// nanosecond. Beyond its range, take.lua leaves the call to the complete script, and the complete
// script replies an error that names the module. The fuzzer of test/model makes calls of several
// funnels, of slots and with odd words.

package redis_test

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/call"
	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/internal/redis"
)

func init() {
	err := flag.Set("rapid.checks", servertest.QuickOrLong("5000", "800000"))
	if err != nil {
		panic(err)
	}
}

// A scriptCall is a call of one funnel, in the words of the command, at a given time.
type scriptCall struct {
	contract.Command
	words []string
	value contract.Value
	now   int64
}

// The outcomes of calls that scripts do not decide.
const left, beyond = "left to the complete script", "beyond the script"

func TestScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, limiter.Script(), "reserve", "take", "peek", "charge", "refund")
	for _, outcome := range append(contract.Outcomes[:8:8], beyond) {
		require.Greater(t, met[outcome], 10, "%s: %v", outcome, met)
	}
	for _, err := range []contract.Error{contract.ErrEmissionInterval, contract.ErrTolerance, contract.ErrIncrement,
		contract.ErrType, contract.ErrFunnel, contract.ErrTAT} {
		require.Positive(t, met[string(err)], "%s: %v", err, met)
	}
}

// The client computes the rest of the reply from what take.lua replies.
func TestTakeScriptAgreesWithTheContract(t *testing.T) {
	met := compareScript(t, redis.TakeScript, "reserve", "take", "peek")
	for _, outcome := range append(contract.Outcomes[:6:6], left) { // the outcomes of these commands
		require.Greater(t, met[outcome], 10, "%s: %v", outcome, met)
	}
}

// The complete script decides what take.lua cannot compute, and what take.lua limits only because
// its max wait was cut.
func TestTakeScriptLeavesCalls(t *testing.T) {
	const day = int64(24 * time.Hour)
	waiting := redis.NewTakeCall(call.Reserve, 1, 1, int64(time.Second), 1, 60*day)
	for _, c := range []struct {
		name  string
		reply any
		err   error
	}{
		{name: "the key holds something else, or doubles are not exact", reply: nil, err: redis.ErrNotForTake},
		{name: "a level for which the whole max wait suffices", reply: int64(60 * day), err: redis.ErrCutShort},
		{name: "a level for which it does not", reply: int64(60*day) + 1, err: nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := waiting.Read(c.reply)
			require.Equal(t, c.err, err)
		})
	}
}

// compareScript makes random calls of these commands, and returns how many came to which outcome.
func compareScript(t *testing.T, script string, commands ...string) (met map[string]int) {
	t.Parallel()
	met = map[string]int{}
	wire := servertest.Start(t, servertest.Options{Config: []string{"--save", ""}}).Wire(t)
	hash := wire.MustDo(t, "script", "load", redis.WithClock(script)).(string)
	askExpiry, isComplete := servertest.AskExpiry(t, "key"), script == limiter.Script()
	kinds := append(slices.Repeat([]string{"funnel"}, 9), "numbers")
	rapid.Check(t, func(t *rapid.T) {
		c := scriptCall{now: drawClock(t)}
		row := contract.DrawRow(t, c.now, kinds...)
		c.value = row.Value
		lastWords, hasLastWord := row.DrawLastWords(t, c.now), rapid.Bool().Draw(t, "a last word")
		for _, name := range commands {
			c.Command, _ = contract.CommandOf("cl." + name)
			c.words = append([]string{"key"}, row.Words[:]...)
			if hasLastWord && c.LastWord != "" {
				c.words = append(c.words, lastWords[c.LastWord])
			}
			take, call := (*redis.TakeCall)(nil), append([]string{name}, c.words[1:]...)
			if !isComplete {
				take = c.takeCall()
				if take == nil {
					met[left]++
					continue
				}
				call = strings.Fields(fmt.Sprintln(take.Words()...))
			}
			clock := []string{strconv.FormatInt(c.now/1e9, 10), strconv.FormatInt(c.now%1e9/1000, 10)} // as TIME replies it
			call = slices.Concat([]string{"evalsha", hash, "3"}, clock, []string{"key"}, call)
			got := exchange(t, wire, []string{"flushall"}, c.store(), call, []string{"get", "key"}, askExpiry)[2:]
			wallClock := time.Now().UnixMilli()
			if take != nil {
				got[0] = c.readTake(take, got[0])
			}
			want, outcome := c.expect(isComplete, got[0], wallClock)
			met[outcome]++
			require.Equal(t, want, got, "%s %q of %+v at %d, on a server at %d", c.Name, c.words, c.value, c.now, wallClock)
		}
	})
	return met
}

// drawClock draws the clock of a server, in whole microseconds: most often an instant of these
// years, or one near the first or the last instant that take.lua accepts.
func drawClock(t *rapid.T) int64 {
	ours := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	years := rapid.Int64Range(ours, ours+30*365*24*3600e9)
	now := rapid.OneOf(years, years, years, contract.Between(0, math.MaxInt64), rapid.SampledFrom([]int64{1e18, 9e18}),
		rapid.SampledFrom([]int64{1e18 - 1, 9e18 - 1})).Draw(t, "now")
	return now - now%1000
}

func exchange(t *rapid.T, wire *servertest.Wire, commands ...[]string) (replies []any) {
	require.NoError(t, servertest.CallMany(wire, len(commands), func(i int) []string { return commands[i] },
		func(_ int, reply any) error {
			replies = append(replies, reply)
			return nil
		}))
	return replies
}

// store is the command that stores the value.
func (c *scriptCall) store() []string {
	switch c.value.Type {
	case "string":
		return []string{"set", "key", c.value.Text}
	case "list":
		return []string{"rpush", "key", "element"}
	case "zset":
		return []string{"zadd", "key", "1", "h"}
	}
	return []string{"ping"}
}

// numbers returns the capacity, count, period and quantity, and the max wait, if all words are
// valid.
func (c *scriptCall) numbers() (numbers [5]int64, sound bool) {
	for i, word := range c.words[1:] {
		number, valid := contract.Integer(int64(1-i/3), word) // the quantity may be 0
		if i == 2 || i == 4 && c.LastWord == "max_wait" {
			number, valid = contract.Seconds(word)
		}
		if !valid || i == 2 && number.Sign() == 0 {
			return numbers, false
		}
		numbers[i] = number.Int64()
	}
	return numbers, true
}

// takeCall returns the call for take.lua, or nil if the client does not make one.
func (c *scriptCall) takeCall() *redis.TakeCall {
	n, sound := c.numbers()
	if !sound {
		return nil
	}
	operation := map[string]call.Operation{"reserve": call.Reserve, "take": call.Take, "peek": call.Peek}[c.Operation]
	return redis.NewTakeCall(operation, n[0], n[1], n[2], n[3], n[4])
}

// readTake converts a reply of take.lua to the reply of the command, or returns nil if take.lua
// decides nothing.
func (c *scriptCall) readTake(take *redis.TakeCall, reply any) any {
	decision, err := take.Read(reply)
	switch {
	case err == redis.ErrNotForTake, err == redis.ErrCutShort:
		return nil
	case err != nil:
		return reply
	}
	limited, wait := int64(0), "-1"
	if decision.Limited {
		limited = 1
	}
	if decision.Wait >= 0 {
		wait = seconds(int64(decision.Wait))
	}
	numbers, _ := c.numbers()
	row := []any{limited, numbers[0], decision.Remaining, wait, seconds(int64(decision.ResetAfter)),
		fmt.Sprint(decision.Receipt)}
	whole := []any{limited, wait, []any{row}}
	if c.Operation == "take" {
		whole = append(whole, decision.Taken)
	}
	return ofScript(whole)
}

// expect returns the reply, value and expiry that the contract says, and the name of the outcome.
func (c *scriptCall) expect(isComplete bool, got any, wallClock int64) (want []any, name string) {
	outcome := contract.Run(contract.Default, append([]string{c.Name}, c.words...), c.now,
		func(string) contract.Value { return c.value })
	text, _ := got.(servertest.ErrorReply)
	const tooLarge = " and period are too large together for the script: "
	isRefused := strings.Contains(string(text), tooLarge)
	want, name = []any{ofScript(outcome.Reply)}, outcome.Name
	switch {
	case !isComplete && got == nil:
		want, name, outcome.Writes = []any{nil}, left, nil
	case isComplete && c.isBeyond() && (isRefused || outcome.Err == ""):
		name, outcome.Err, outcome.Writes = beyond, tooLarge, nil
	}
	if name != left && outcome.Err != "" {
		want[0] = outcome.Err
		if isComplete && strings.Contains(string(text), string(outcome.Err)) { // it goes on
			want[0] = text
		}
	}
	value, expiry := any(c.value.Text), int64(-1)
	switch c.value.Type {
	case "":
		value, expiry = nil, -2
	case "list", "zset":
		value = servertest.ErrorReply(contract.ErrType)
	}
	for _, write := range outcome.Writes {
		value, expiry = write.Value.Text, write.Value.Expiry
		if expiry <= wallClock {
			value, expiry = nil, -2 // deleted, or, since a server does so, expired before its own time
		}
	}
	return append(want, value, expiry), name
}

// isBeyond reports whether the call is beyond the range of the complete script, whatever else is
// wrong: a number above 4,000,000 makes a time of 104 days or more.
func (c *scriptCall) isBeyond() bool {
	const maxTokens, days104 = 4_000_000, 104 * 24 * 60 * 60 * 1_000_000_000
	n, _ := c.numbers()
	capacity, count, period, quantity := n[0], n[1], n[2], n[3]
	if count == 0 || period == 0 {
		return false
	}
	interval := period / count
	isLarge := func(number int64) bool { return number > maxTokens && interval > (days104-1)/number }
	return count > maxTokens && period >= days104 || isLarge(capacity) || c.Operation != "take" && isLarge(quantity)
}

// ofScript returns a reply in the form of the script: integers of more than 15 digits are strings.
func ofScript(reply any) any {
	row, is := reply.([]any)
	if is {
		for i := range row {
			row[i] = ofScript(row[i])
		}
	}
	number, is := reply.(int64)
	if is && number >= 1e15 {
		return strconv.FormatInt(number, 10)
	}
	return reply
}

// seconds writes nanoseconds as the commands take them.
func seconds(nanoseconds int64) string {
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
