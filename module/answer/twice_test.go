// A key named twice is found, in time that grows with the call and no faster.

package answer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

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
		if parse(call); call.Verdict == Error {
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
			parse(call)
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
