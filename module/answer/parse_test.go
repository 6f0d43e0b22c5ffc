// Numbers are read and written exactly, and what is no number of the contract is refused. A key named twice
// is found, in time that grows with the call and no faster.

package answer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
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

func callOfKeys(keys []string) *Call {
	words := []string{"cl.peek"}
	for _, key := range keys {
		words = append(words, key, "1", "1", "1", "1")
	}
	return callOf(contract.Default, words, today)
}

// TestKeysNamedTwiceAreFound among keys that are alike: the error names the first whose key
// has come before.
func TestKeysNamedTwiceAreFound(t *testing.T) {
	for range 5000 {
		keys, want := make([]string, 1+rand.IntN(MostFunnels)), ""
		seen, length := map[string]bool{}, rand.IntN(12)
		for i := range keys {
			key := fmt.Sprintf("%0*b", length, rand.IntN(1<<length))[:max(0, length-rand.IntN(2))]
			if seen[key] && want == "" {
				want = fmt.Sprintf("ERR row %d: %s", i+1, keyTwice)
			}
			keys[i], seen[key] = key, true
		}
		call, got := callOfKeys(keys), ""
		if Parse(call); call.Verdict == Error {
			got = errorOf(t, call)
		}
		require.Equal(t, want, got, "%q", keys)
	}
}

// TestKeysNamedTwiceTakeLinearTime: 64 keys that differ in one byte only cost little more
// than two keys with as many bytes. Comparing each with each costs 63 times as much.
func TestKeysNamedTwiceTakeLinearTime(t *testing.T) {
	const bytes = 16 << 20
	fastest := func(count int, differ func(key []byte, i int)) time.Duration {
		keys := make([]string, count)
		for i := range keys {
			key := []byte(strings.Repeat("k", bytes/count))
			differ(key, i)
			keys[i] = string(key)
		}
		call, fastest := callOfKeys(keys), time.Hour
		for range 20 {
			start := time.Now()
			Parse(call)
			fastest = min(fastest, time.Since(start))
		}
		require.Equal(t, Parsed, call.Verdict)
		return fastest
	}
	inFirst := func(key []byte, i int) { key[0] = byte(i) }
	least := fastest(2, inFirst)
	for name, differ := range map[string]func(key []byte, i int){
		"in the first byte": inFirst,
		"in one byte each":  func(key []byte, i int) { key[i*len(key)/MostFunnels] = 'x' },
		"in the last byte":  func(key []byte, i int) { key[len(key)-1] = byte(i) },
	} {
		require.Less(t, fastest(MostFunnels, differ)/least, time.Duration(20), name)
	}
}
