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
	call := Call{Now: today}
	call.Funnel = Funnel{Capacity: arguments[0], Count: arguments[1], Period: arguments[2], Quantity: "1", Write: 77}
	call.Outcome, call.Reply = usedOutcome(), [ReplyLength]int64{77, 77, 77, 77, 77}
	call.Ask.TAT, call.Ask.Decision.Wait = 77, 77
	if len(arguments) > 3 {
		call.Funnel.Quantity = arguments[3]
	}
	return &call
}

// usedOutcome is one that another call has left behind.
func usedOutcome() Outcome {
	outcome := Outcome{Verdict: 77, Funnel: 77}
	for i := range outcome.Message {
		outcome.Message[i] = 'x'
	}
	return outcome
}

// answer makes the two crossings of a command.
func answer(call *Call) {
	if parse(call); call.Outcome.Verdict == Parsed {
		decide(call)
	}
}

// errorOf is the error reply to a call.
func errorOf(t testing.TB, call *Call) string {
	t.Helper()
	answer(call)
	return call.Outcome.text(t)
}

// text is the error reply of an outcome.
func (outcome *Outcome) text(t testing.TB) string {
	t.Helper()
	require.Equal(t, Error, outcome.Verdict)
	text, _, terminated := strings.Cut(string(outcome.Message[:]), "\x00")
	require.True(t, terminated)
	return text
}

func (decimal *Decimal) text() string { return string(decimal.Bytes[decimal.Start:decimal.End]) }

func TestTranscript(t *testing.T) {
	call := callOf("15", "30", "60")
	answer(call)
	require.Equal(t, Allowed, call.Outcome.Verdict)
	require.Equal(t, [ReplyLength]int64{0, 15, 14, -1, 2}, call.Reply)
	require.Equal(t, strconv.FormatInt(today+2e9, 10), call.Funnel.TAT.text())
	require.Equal(t, (today+2e9)/1e6+1, call.Funnel.ExpiryMilliseconds)
	require.Equal(t, strconv.FormatInt(call.Funnel.ExpiryMilliseconds, 10), call.Funnel.Expiry.text())
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
			call.Funnel.Stored, call.Funnel.StoredValue = StoredString, strconv.FormatInt(today+c.stored, 10)
		}
		answer(call)
		require.Equal(t, c.verdict, call.Outcome.Verdict, c.arguments)
		require.Equal(t, c.reply, call.Reply, c.arguments)
		require.Equal(t, c.verdict == Allowed, call.Funnel.Write == WriteTAT, c.arguments)
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
		call := Call{Now: now, Funnel: Funnel{
			Capacity: capacity, Count: count, Period: period, Quantity: quantity,
			Stored: StoredString, StoredValue: stored,
		}}
		if redisCell {
			call.LimitSurplus = 1
		}
		require.Zero(t, testing.AllocsPerRun(1, func() { answer(&call) }))
		if call.Outcome.Verdict == Error {
			message := errorOf(t, &call)
			require.Regexp(t, `^(ERR|WRONGTYPE) [ -~]+$`, message)
			require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
			return
		}
		require.GreaterOrEqual(t, call.Reply[2], int64(0))
		require.LessOrEqual(t, call.Reply[2], call.Reply[1])
		if call.Outcome.Verdict == Allowed {
			require.GreaterOrEqual(t, call.Funnel.ExpiryMilliseconds, max(now, 0)/1e6)
			require.Equal(t, strconv.FormatInt(call.Funnel.ExpiryMilliseconds, 10), call.Funnel.Expiry.text())
		}
	})
}
