package answer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// used is a Decimal that another call has left behind.
func used() Decimal { return Decimal{Start: 7, End: 9, Bytes: [DecimalCapacity]byte{'x', 'x', 'x'}} }

func TestSetInteger(t *testing.T) {
	numbers := []int64{math.MaxInt64, today}
	for power := int64(1); ; power *= 10 {
		numbers = append(numbers, power-1, power, power+1)
		if power == 1e18 {
			break
		}
	}
	for _, number := range numbers {
		decimal := used()
		decimal.setInteger(number)
		require.Equal(t, strconv.FormatInt(number, 10), decimal.text())
	}
}

// TestEightDigits goes through all halves, each beside some others, and random numbers.
func TestEightDigits(t *testing.T) {
	check := func(number uint64) {
		text := make([]byte, 8)
		put(text, eightDigits(number))
		if string(text) != fmt.Sprintf("%08d", number) { // require is slow
			require.Equal(t, fmt.Sprintf("%08d", number), string(text))
		}
	}
	for half := range uint64(10_000) {
		for _, other := range []uint64{0, 1, 99, 100, 5000, 9999} {
			check(half*10_000 + other)
			check(other*10_000 + half)
		}
	}
	for range 100_000 {
		check(rand.Uint64N(1e8))
	}
}

func TestSetSeconds(t *testing.T) {
	for nanoseconds, want := range map[int64]string{
		-1: "-1", 0: "0", 1: "0.000000001", 10: "0.00000001", 100_000_000: "0.1", 999_999_999: "0.999999999", 1e9: "1",
		1e9 + 1: "1.000000001", 1_020_304_050: "1.02030405", 10e9: "10", 100e9 + 5e8: "100.5",
		math.MaxInt64: "9223372036.854775807", 9223372036e9: "9223372036", 123456789_012345678: "123456789.012345678",
	} {
		decimal := used()
		decimal.setSeconds(nanoseconds)
		require.Equal(t, want, decimal.text())
		if nanoseconds >= 0 {
			back, ok := parseSeconds(want)
			require.True(t, ok)
			require.Equal(t, nanoseconds, back)
		}
	}
}
