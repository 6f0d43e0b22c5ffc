// A word that is not a number of the contract is refused. Numbers are read exactly. A key that is
// named twice is found, in a time that is linear in the length of the call.

package command

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/errortext"
)

// FuzzParse compares with patterns and arithmetic of any size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "0", "1", "9", "10", "15", "60", "-1", "-0", "+1", "00", "000", "01", " 1", "1 ", "1e3", "x", "/", ":", "\x00",
		"1\x00", "１",
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

// callOfKeys peeks at funnels with these keys.
func callOfKeys(keys []string) *Call {
	words := []string{"cl.peek"}
	for _, key := range keys {
		words = append(words, key, "1", "1", "1", "1")
	}
	c := new(Call)
	c.set(contract.Default, words, today)
	return c
}

// TestDuplicateKeysAreFound: in a call of similar keys, the error names the first row whose key an
// earlier row has.
func TestDuplicateKeysAreFound(t *testing.T) {
	for range 5000 {
		keys, want := make([]string, 1+rand.IntN(MaxRows)), ""
		seen := map[string]bool{}
		length := rand.IntN(12)
		for i := range keys {
			key := fmt.Sprintf("%0*b", length, rand.IntN(1<<length))[:max(0, length-rand.IntN(2))]
			if seen[key] && want == "" {
				want = fmt.Sprintf("INVALID row %d: %s", i+1, errortext.DuplicateKey)
			}
			keys[i], seen[key] = key, true
		}
		c := callOfKeys(keys)
		got := ""
		Parse(c)
		if c.Verdict == Error {
			got = errorOf(t, c)
		}
		require.Equal(t, want, got, "%q", keys)
	}
}

// TestDuplicateKeysTakeLinearTime: for each key, each byte is compared at most once, and one byte
// more for each earlier key. Comparing each key with every other key would take 63 times as many
// comparisons.
func TestDuplicateKeysTakeLinearTime(t *testing.T) {
	const length = 1 << 16
	for name, differ := range map[string]func(key []byte, i int){
		"in the first byte": func(key []byte, i int) { key[0] = byte(i) },
		"in one byte each":  func(key []byte, i int) { key[i*length/MaxRows] = 'x' },
		"in the last byte":  func(key []byte, i int) { key[length-1] = byte(i) },
	} {
		keys := make([]string, MaxRows)
		for i := range keys {
			key := []byte(strings.Repeat("k", length))
			differ(key, i)
			keys[i] = string(key)
		}
		c := callOfKeys(keys)
		Parse(c)
		require.Equal(t, Parsed, c.Verdict, name)
		require.LessOrEqual(t, c.ComparedBytes, uint64(MaxRows*(length+MaxRows)), "keys that differ %s", name)
		require.GreaterOrEqual(t, c.ComparedBytes, uint64(MaxRows-1), "keys that differ %s", name)
	}
}
