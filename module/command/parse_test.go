// A word that is not a number of the contract is refused. Numbers are read exactly.

package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

// FuzzParse compares with patterns and arithmetic of any size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "0", "1", "9", "10", "15", "60", "-1", "-0", "+1", "00", "000", "01", " 1", "1 ", "1e3", "x", "/", ":", "\x00", "1\x00", "１",
		"999999999999999999", "1000000000000000000", "1795236055976124882", "9223372036854775807", "9223372036854775808",
		"9999999999999999999", "18446744073709551616", "10000000000000000000", "0123456789012345678", "-123456789012345678",
		"123/567890123456789", "123456789:123456789", "1234567890123456/89", "123456789012345678:", "1234567890123456789x",
		"12345678901234567\x0089", "１2345678901234567", strings.Repeat("1", 1<<10), "1." + strings.Repeat("0", 1<<10),
		"0.0", "0.5", "1.0", "0.000000001", "1.000000001", "1.100000000", "0.999999999", "9223372036", "9223372036.854775807",
		".", ".1", "1.", "1..2", "1.2.3", "1.-5", "1.+5", "1. 5", "1./", "1.:", "inf", "nan", "0x10", "00.5",
		"0.0000000001", "0.1234567890", "9223372036.854775808", "9223372037", "99999999999", "1.\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, wantOK := contract.Integer(0, text)
		number, ok := parseInteger(text)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want.Int64(), number)
		}
		nanoseconds, ok := parseSeconds(text)
		want, wantOK = contract.Seconds(text)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want.Int64(), nanoseconds)
		}
	})
}
