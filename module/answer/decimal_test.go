// Replies have numbers and seconds in decimals, exactly.

package answer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// used is a Decimal that another call has left behind.
func used() Decimal { return Decimal{Start: 7, End: 9, Bytes: [DecimalCapacity]byte{'x', 'x', 'x'}} }

// TestDecimals writes numbers as they are, and nanoseconds as seconds: all halves of eight
// digits, each beside some others, numbers of any length, and random ones.
func TestDecimals(t *testing.T) {
	check := func(number int64) {
		integer, seconds := used(), used()
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
	never := used()
	never.setSeconds(-1)
	require.Equal(t, "-1", never.text())
}
