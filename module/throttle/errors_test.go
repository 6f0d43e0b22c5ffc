package throttle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErrorMessages: each error names the argument, shows it within limits, and is one
// line of printable ASCII.
func TestErrorMessages(t *testing.T) {
	const (
		most     = "9223372036854775807"
		together = ", not capacity 15, count 30, period 60, quantity " + most
	)
	forty := strings.Repeat("9", 40)
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"x", "30", "60"}, badCapacity + ", not 'x'"},
		{[]string{"", "30", "60"}, badCapacity},
		{[]string{" ~\x1f\x7f漏", "30", "60"}, badCapacity + ", not ' ~?????'"},
		{[]string{forty, "30", "60"}, badCapacity + ", not '" + forty + "'"},
		{[]string{forty + "8", "30", "60"}, badCapacity + ", not '" + forty + "' and more"},
		{[]string{"15", "0", "60"}, badCount + ", not '0'"},
		{[]string{"15", "30", "0"}, badPeriod + ", not '0'"},
		{[]string{"15", "30", "60", "-1"}, badQuantity + ", not '-1'"},
		{[]string{"15", "30", "60", most}, "ERR quantity and period are too large together for count: the tokens must leak within 2^63-1 nanoseconds (292 years)" + together},
		{[]string{"15", "2", "0.000000001", "1"}, "ERR count is too large for period: less than 1 nanosecond per token, not capacity 15, count 2, period 0.000000001, quantity 1"},
	} {
		require.Equal(t, c.want, errorOf(t, callOf(c.arguments...)))
	}
}

// TestErrorsOfTheKey omit what it holds.
func TestErrorsOfTheKey(t *testing.T) {
	for stored, want := range map[string]string{"secret": noFunnel, "-1": noFunnel, "9223372036854775808": noFunnel} {
		call := callOf("15", "30", "60")
		call.Stored, call.StoredValue = StoredString, stored
		require.Equal(t, want, errorOf(t, call))
	}
}
