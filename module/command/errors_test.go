// An error is one printable line: its code, the row if there are several, the reason, and the wrong
// argument.

package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorTexts(t *testing.T) {
	forty := strings.Repeat("1234567890", 4)
	for _, test := range []struct {
		name     string
		row      uint32
		argument string
		want     string
	}{
		{name: "no argument", want: "INVALID ttl is wrong"},
		{name: "an argument", argument: "x", want: "INVALID ttl is wrong, not 'x'"},
		{name: "a row", row: 9, argument: "x", want: "INVALID row 9: ttl is wrong, not 'x'"},
		{name: "a row of two digits", row: 64, want: "INVALID row 64: ttl is wrong"},
		{name: "a row that ends in 0", row: 10, want: "INVALID row 10: ttl is wrong"},
		{name: "the first and the last printable byte", argument: " ~", want: "INVALID ttl is wrong, not ' ~'"},
		{name: "bytes that are not", argument: "\x00\n\x1f\x7f\xff", want: "INVALID ttl is wrong, not '?????'"},
		{name: "as much as is shown", argument: forty, want: "INVALID ttl is wrong, not '" + forty + "'"},
		{name: "more", argument: forty + "1", want: "INVALID ttl is wrong, not '" + forty + "' and more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &Call{ErrorRow: test.row, Verdict: Parsed, MessageLength: 5}
			require.False(t, c.failArgument("ttl is wrong", test.argument))
			require.Equal(t, test.want, errorOf(t, c))
		})
	}
}

// A message that does not fit loses its end, and keeps the zero byte by which C finds the end.
func TestLongMessagesAreCut(t *testing.T) {
	c := new(Call)
	c.fail(strings.Repeat("x", MessageCapacity))
	require.Equal(t, "INVALID "+strings.Repeat("x", MessageCapacity-1-len("INVALID ")), errorOf(t, c))
	require.Zero(t, c.Message[MessageCapacity-1])
}
