package throttle

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// today is an instant in 2026.
const today int64 = 1795236055976124882

// callOf is a call as C makes it: what Go fills in holds whatever was there before.
func callOf(arguments ...string) *Call {
	call := Call{Capacity: arguments[0], Count: arguments[1], Period: arguments[2], Quantity: "1", Now: today}
	call.Verdict, call.Reply, call.TAT.Length, call.Expiry.Length = 77, [ReplyLength]int64{77, 77, 77, 77, 77}, 77, 77
	for i := range call.Message {
		call.Message[i] = 'x'
	}
	if len(arguments) > 3 {
		call.Quantity = arguments[3]
	}
	return &call
}

// answer makes the two crossings of a command.
func answer(call *Call) {
	if parse(call); call.Verdict == Parsed {
		decide(call)
	}
}

// errorOf is the error reply to a call.
func errorOf(t testing.TB, call *Call) string {
	t.Helper()
	answer(call)
	require.Equal(t, Error, call.Verdict)
	text, _, terminated := strings.Cut(string(call.Message[:]), "\x00")
	require.True(t, terminated)
	return text
}

func textOf(digits *Digits) string {
	return string(digits.Bytes[DigitsCapacity-digits.Length:])
}

func TestTranscript(t *testing.T) {
	call := callOf("15", "30", "60")
	answer(call)
	require.Equal(t, Allowed, call.Verdict)
	require.Equal(t, [ReplyLength]int64{0, 15, 14, -1, 2}, call.Reply)
	require.Equal(t, strconv.FormatInt(today+2e9, 10), textOf(&call.TAT))
	require.Equal(t, (today+2e9)/1e6+1, call.ExpiryMilliseconds)
	require.Equal(t, strconv.FormatInt(call.ExpiryMilliseconds, 10), textOf(&call.Expiry))
}

// TestVerdicts, of funnels that hold something, and of the least that is accepted.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		arguments string
		surplus   int64
		stored    int64 // ahead of now; 0 for no key
		verdict   uint32
		reply     [ReplyLength]int64
	}{
		{"15 30 60", 0, 10e9, Allowed, [ReplyLength]int64{0, 15, 9, -1, 12}},
		{"15 30 60", 0, 30e9, Limited, [ReplyLength]int64{1, 15, 0, 2, 30}},
		{"15 30 60 0", 0, 10e9, Peeked, [ReplyLength]int64{0, 15, 10, -1, 10}},
		{"15 30 60 0", 0, 40e9, Peeked, [ReplyLength]int64{1, 15, 0, 10, 40}},
		{"1 1 0.000000001 1", 0, 0, Allowed, [ReplyLength]int64{0, 1, 0, -1, 1}},
		{"0 1 1", 1, 0, Allowed, [ReplyLength]int64{0, 1, 0, -1, 1}}, // in redis-cell mode
		{"9223372036854775806 1 0.000000001 1", 1, 0, Allowed, [ReplyLength]int64{0, math.MaxInt64, math.MaxInt64 - 1, -1, 1}},
	} {
		call := callOf(strings.Fields(c.arguments)...)
		call.LimitSurplus = c.surplus
		if c.stored != 0 {
			call.Stored, call.StoredValue = StoredString, strconv.FormatInt(today+c.stored, 10)
		}
		answer(call)
		require.Equal(t, c.verdict, call.Verdict, c.arguments)
		require.Equal(t, c.reply, call.Reply, c.arguments)
	}
}

func TestDigits(t *testing.T) {
	numbers := []int64{math.MaxInt64, today}
	for power := int64(1); power <= 1e18; power *= 10 {
		numbers = append(numbers, power-1, power, power+1)
		if power == 1e18 {
			break
		}
	}
	for _, number := range numbers {
		digits := Digits{Length: 7, Bytes: [DigitsCapacity]byte{'x', 'x'}}
		digits.set(number)
		require.Equal(t, strconv.FormatInt(number, 10), textOf(&digits))
	}
}

// FuzzAnswer: whatever the arguments and the value, there is either a decision
// or an error of one printable line that fits its buffer, and nothing is
// allocated on the way.
func FuzzAnswer(f *testing.F) {
	f.Add("15", "30", "60", "1", "1795236055976124882", int64(1795236055976124882), false)
	f.Add("0", "1", "0.000000001", "0", "", int64(0), true)
	f.Add(strings.Repeat("9", 19), "1", "9223372036.854775807", strings.Repeat("\xff", 100), "-1", int64(-1), false)
	f.Add("1", "9223372036854775807", "9223372036.854775807", "9223372036854775807", "0", int64(1), false)
	f.Add("9223372036854775807", "9223372036854775807", "9223372036.854775807", "9223372036854775807", "0", int64(1), false)
	f.Fuzz(func(t *testing.T, capacity, count, period, quantity, stored string, now int64, redisCell bool) {
		call := Call{
			Capacity: capacity, Count: count, Period: period, Quantity: quantity,
			Stored: StoredString, StoredValue: stored, Now: now,
		}
		if redisCell {
			call.LimitSurplus = 1
		}
		require.Zero(t, testing.AllocsPerRun(1, func() { answer(&call) }))
		if call.Verdict == Error {
			message := errorOf(t, &call)
			require.Regexp(t, `^(ERR|WRONGTYPE) [ -~]+$`, message)
			require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
			return
		}
		require.GreaterOrEqual(t, call.Reply[2], int64(0))
		require.LessOrEqual(t, call.Reply[2], call.Reply[1])
		if call.Verdict == Allowed {
			require.GreaterOrEqual(t, call.ExpiryMilliseconds, max(now, 0)/1e6)
			require.Equal(t, strconv.FormatInt(call.ExpiryMilliseconds, 10), textOf(&call.Expiry))
		}
	})
}
