// Numbers are read and written exactly, and a word that is no number of the contract is refused.

package command

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

// staleDecimal is a Decimal of an earlier call.
func staleDecimal() Decimal {
	return Decimal{Start: 7, End: 9, Bytes: [DecimalCapacity]byte{'x', 'x', 'x'}}
}

// TestDecimals writes numbers as they are, and nanoseconds as seconds: all halves of eight
// digits, each beside some others, numbers of any length, and random ones.
func TestDecimals(t *testing.T) {
	check := func(number int64) {
		integer, seconds := staleDecimal(), staleDecimal()
		integer.setInteger(number)
		seconds.setSeconds(number)
		wantInteger, wantSeconds := strconv.FormatInt(number, 10), fmt.Sprintf("%d.%09d", number/1e9, number%1e9)
		wantSeconds = strings.TrimSuffix(strings.TrimRight(wantSeconds, "0"), ".")
		if integer.text() != wantInteger || seconds.text() != wantSeconds { // require is slow
			require.Equal(t, []string{wantInteger, wantSeconds}, []string{integer.text(), seconds.text()})
		}
	}
	check(math.MaxInt64)
	for power := int64(1); power <= 1e18/10; power *= 10 {
		for _, number := range []int64{power - 1, power, power + 1, 10*power - 1, 10 * power, 10*power + 1, math.MaxInt64 / power * power} {
			check(number)
		}
	}
	for half := range int64(10_000) {
		for _, other := range []int64{0, 1, 99, 100, 5000, 9999} {
			check(half*10_000 + other)
			check(other*10_000 + half)
		}
	}
	for range 100_000 {
		check(rand.Int64() >> rand.IntN(63))
	}
}

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
