// An error names the argument and the row that is wrong, in one printable line.

package answer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

// TestErrorMessages show the argument within limits, as printable ASCII, and number the
// row. FuzzAnswer compares the texts with the contract, and test/command has all of them.
func TestErrorMessages(t *testing.T) {
	const count, most = contract.ErrCount, "9223372036854775807"
	forty, first := strings.Repeat("9", 40), "cl.charge "+strings.Repeat("k 1 1 1 1 ", 8)
	for _, c := range []struct {
		words string
		mode  contract.Mode
		want  contract.Error
	}{
		{"cl.throttle k 15  60", contract.Default, count},
		{"cl.throttle k 15 ~\x1f\x7f漏 60", contract.Default, count + ", not '~?????'"},
		{"cl.throttle k 15 " + forty + " 60", contract.Default, count + contract.Error(", not '"+forty+"'")},
		{"cl.throttle k 15 " + forty + "8 60", contract.Default, count + contract.Error(", not '"+forty+"' and more")},
		{first + "a 1 x 1 1", contract.Default, count.Of(9) + ", not 'x'"},
		{first + "k 1 1 1 1 a 1 x 1 1", contract.Default, count.Of(10) + ", not 'x'"},
		{"cl.throttle k x 30 60", contract.RedisCell, contract.ErrCapacity + "0 to " + most + ", not 'x'"},
		{"cl.throttle k 0 x 60", contract.Default, contract.ErrCapacity + "1 to " + most + ", not '0': for clients of redis-cell, " +
			"whose argument is one less than the limit, load the module with 'compat redis-cell'"},
		{"cl.peek k 0 x 60 1", contract.Default, contract.ErrCapacity + "1 to " + most + ", not '0'"},
		{"cl.peek k 0 x 60 1", contract.RedisCell, contract.ErrCapacity + "1 to " + most + ", not '0'"},
		{"cl.throttle k " + most + " " + most + " 9223372036.854775807 " + most, contract.RedisCell, contract.ErrTolerance + ": got capacity " + most +
			", count " + most + ", period 9223372036.854775807, quantity " + most},
	} {
		call := callOf(c.mode, strings.Split(c.words, " "), today, nothing)
		answer(call)
		require.Equal(t, string(c.want), errorOf(t, call), c.words)
	}
}
