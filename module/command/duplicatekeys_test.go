// A key that is named twice is found, in a time that is linear in the length of the call.

package command

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

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

// TestDuplicateKeysAreFound: in a call of similar keys, the error names the first row whose key an earlier row has.
func TestDuplicateKeysAreFound(t *testing.T) {
	for range 5000 {
		keys, want := make([]string, 1+rand.IntN(MaxRows)), ""
		seen, length := map[string]bool{}, rand.IntN(12)
		for i := range keys {
			key := fmt.Sprintf("%0*b", length, rand.IntN(1<<length))[:max(0, length-rand.IntN(2))]
			if seen[key] && want == "" {
				want = fmt.Sprintf("ERR row %d: %s", i+1, duplicateKey)
			}
			keys[i], seen[key] = key, true
		}
		c, got := callOfKeys(keys), ""
		if Parse(c); c.Verdict == Error {
			got = errorOf(t, c)
		}
		require.Equal(t, want, got, "%q", keys)
	}
}

// TestDuplicateKeysTakeLinearTime: for each key, each byte is compared at most once, and one byte more for each
// earlier key. Comparing each key with every other key would take 63 times as many comparisons.
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
