package throttle

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
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

// FuzzAnswer: whatever the arguments and the key, the answer is what the contract says, an
// error is one printable line that fits its buffer, and nothing is allocated on the way.
func FuzzAnswer(f *testing.F) {
	const most = "9223372036854775807"
	in := func(ahead int64) string { return strconv.FormatInt(today+ahead, 10) }
	for _, c := range []struct {
		arguments string
		stored    uint8
		value     string
		redisCell bool
	}{
		{"15 30 60 1", 0, "", false}, {"15 30 60 1", 1, in(0), false}, {"15 30 60 1", 1, in(10e9), false}, {"15 30 60 1", 1, in(28e9), false}, {"15 30 60 1", 1, in(28e9 + 1), false},
		{"15 30 60 1", 1, in(30e9), false},
		{"15 30 60 16", 1, in(30e9), false}, {"15 30 60 0", 1, in(10e9), false}, {"15 30 60 0", 1, in(40e9), false},
		{"1 1 0.000000001 1", 0, "", false}, {"1 1 9223372036 1", 0, "", false}, {"1 1 1 1", 1, most, false},
		{"0 1 1 1", 0, "", true}, {"0 1 1 1", 0, "", false}, {"9223372036854775806 1 0.000000001 1", 0, "", true}, {most + " 1 0.000000001 1", 0, "", true},
		{"15 30 60 1", 1, "-1", false}, {"15 30 60 1", 1, "9223372036854775808", false}, {"15 30 60 1", 1, "", false}, {"15 30 60 1", 1, "01", false},
		// Errors come in this order.
		{"x x x x", 2, "", false}, {"x x x x", 2, "", true}, {"1 x x x", 2, "", false}, {"1 1 x x", 2, "", false}, {"1 1 1 x", 2, "", false},
		{most + " " + most + " 1 " + most, 2, "", false}, {most + " 1 1 " + most, 2, "", false}, {"1 1 1 " + most, 2, "", false}, {"1 1 1 1", 2, "", false},
		{most + " " + most + " 9223372036.854775807 " + most, 1, "0", false}, {"1 1 1 " + strings.Repeat("\xff", 100), 0, "", false},
	} {
		words := strings.Split(c.arguments, " ")
		f.Add(words[0], words[1], words[2], words[3], c.stored, c.value, today, c.redisCell)
		f.Add(words[0], words[1], words[2], words[3], c.stored, c.value, int64(-1), c.redisCell)
	}
	f.Fuzz(func(t *testing.T, capacity, count, period, quantity string, stored uint8, value string, now int64, redisCell bool) {
		call := callOf(capacity, count, period, quantity)
		call.Now, call.Funnel.Stored, call.Funnel.StoredValue = now, uint32(stored%3), value
		mode := contract.Default
		if redisCell {
			mode, call.LimitSurplus = contract.RedisCell, 1
		}
		require.Zero(t, testing.AllocsPerRun(1, func() { answer(call) }))

		want := contract.Throttle(mode, []string{"", capacity, count, period, quantity}, max(now, 0), func(string) contract.Value {
			return []contract.Value{{}, {Type: "string", Text: value}, {Type: "list"}}[stored%3]
		})
		if call.Outcome.Verdict == Error {
			message := call.Outcome.text(t)
			require.Regexp(t, `^(ERR|WRONGTYPE) [ -~]+$`, message)
			require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
			require.NotEmpty(t, want.Err, message)
			require.True(t, strings.HasPrefix(message, string(want.Err)), "%q, want %q", message, want.Err)
			return
		}
		var reply []any
		for _, number := range call.Reply {
			reply = append(reply, number)
		}
		require.Equal(t, want.Reply, reply)
		verdict := map[string]uint32{contract.Allowed: Allowed, contract.Limited: Limited, contract.Never: Limited}[want.Name]
		if quantity == "0" {
			verdict = Peeked
		}
		require.Equal(t, verdict, call.Outcome.Verdict)
		require.Equal(t, want.Writes, writesOf(t, nil, &call.Funnel))
	})
}

// writesOf adds what is to be written, in the words of the contract.
func writesOf(t testing.TB, writes []contract.Write, funnel *Funnel) []contract.Write {
	switch funnel.Write {
	case WriteTAT:
		require.Equal(t, strconv.FormatInt(funnel.ExpiryMilliseconds, 10), funnel.Expiry.text())
		return append(writes, contract.Write{Key: funnel.Key, Value: funnel.TAT.text(), Expiry: funnel.ExpiryMilliseconds})
	case WriteDeletion:
		return append(writes, contract.Write{Key: funnel.Key})
	}
	require.Equal(t, WriteNothing, funnel.Write)
	return writes
}
