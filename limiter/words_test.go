package limiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The words of limits are kept, and not without bound if a program makes up limits all the time. A
// limit that is asked for again has the same words.
func TestWordsOfLimitsAreBounded(t *testing.T) {
	t.Parallel()
	var cache wordsCache
	first, err := cache.get(PerMinute(1))
	require.NoError(t, err)
	again, err := cache.get(PerMinute(1))
	require.NoError(t, err)
	require.Same(t, first, again)
	for count := range 2*maxLimits + 1 {
		words, err := cache.get(Per(1+count, time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1+count, words.Count)
		require.LessOrEqual(t, len(cache.known), maxLimits)
	}
}
