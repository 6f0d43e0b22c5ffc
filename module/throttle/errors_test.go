package throttle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErrorMessages: each error names the argument, shows it within limits, and is one
// line of printable ASCII. Here are the texts; other tests go by how they begin.
func TestErrorMessages(t *testing.T) {
	const most = "9223372036854775807"
	fromOne, fromZero := " must be an integer from 1 to "+most, " must be an integer from 0 to "+most
	seconds := "ERR period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	forty := strings.Repeat("9", 40)
	for _, c := range []struct{ arguments, want string }{
		{"x 30 60", "ERR capacity" + fromOne + ", not 'x'"},
		{"0 30 60", "ERR capacity" + fromOne + ", not '0': for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'"},
		{" 30 60", "ERR capacity" + fromOne},
		{"~\x1f\x7f漏 30 60", "ERR capacity" + fromOne + ", not '~?????'"},
		{forty + " 30 60", "ERR capacity" + fromOne + ", not '" + forty + "'"},
		{forty + "8 30 60", "ERR capacity" + fromOne + ", not '" + forty + "' and more"},
		{"15 0 60", "ERR count" + fromOne + ", not '0'"},
		{"15 x 60", "ERR count" + fromOne + ", not 'x'"},
		{"15 30 0", seconds + ", not '0'"},
		{"15 30 1e3", seconds + ", not '1e3'"},
		{"15 30 60 -1", "ERR quantity" + fromZero + ", not '-1'"},
		{"15 30 60 ", "ERR quantity" + fromZero},
		{"15 2 0.000000001 1", "ERR count is too large for period: less than 1 nanosecond per token, not capacity 15, count 2, period 0.000000001, quantity 1"},
		{most + " 30 60 0", "ERR capacity and period are too large together for count: a full funnel must drain within 2^63-1 nanoseconds (292 years), not capacity " + most + ", count 30, period 60, quantity 0"},
		{"15 30 60 " + most, "ERR quantity and period are too large together for count: the tokens must leak within 2^63-1 nanoseconds (292 years), not capacity 15, count 30, period 60, quantity " + most},
		{"1 1 9223372036 1", "ERR quantity and period are too large together for count: the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch, not capacity 1, count 1, period 9223372036, quantity 1"},
	} {
		require.Equal(t, c.want, errorOf(t, callOf(strings.Split(c.arguments, " ")...)))
	}

	redisCell := callOf("x", "30", "60")
	redisCell.LimitSurplus = 1
	require.Equal(t, "ERR capacity"+fromZero+", not 'x'", errorOf(t, redisCell))
	redisCell = callOf(most, "1", "1")
	redisCell.LimitSurplus = 1
	require.Equal(t, "ERR capacity and period are too large together for count: a full funnel must drain within 2^63-1 nanoseconds (292 years), not capacity "+most+", count 1, period 1, quantity 1", errorOf(t, redisCell))
}

// TestErrorsOfTheKey omit what it holds.
func TestErrorsOfTheKey(t *testing.T) {
	call := callOf("15", "30", "60")
	call.Funnel.Stored, call.Funnel.StoredValue = StoredString, "secret"
	require.Equal(t, "ERR the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807", errorOf(t, call))
	call.Funnel.Stored = StoredOtherType
	require.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", errorOf(t, call))
}

// TestLongMessagesAreTruncated, although no message is that long.
func TestLongMessagesAreTruncated(t *testing.T) {
	var outcome Outcome
	outcome.fail(strings.Repeat("x", 2*MessageCapacity))
	require.Equal(t, "ERR "+strings.Repeat("x", MessageCapacity-5)+"\x00", string(outcome.Message[:]))
}
