// A map keeps the entries in use, and few others.

package idle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/idle"
)

// Entries in use stay, with their values. New entries remove idle ones, so the map has at most twice the
// entries that are in use.
func TestIdleEntriesAreRemoved(t *testing.T) {
	const live, added = 1000, 100_000
	var m idle.Map[int, int]
	isIdle := func(oldest int) func(int, int) bool { return func(_, born int) bool { return born < oldest } }
	for now := range added {
		m.Add(now, now, isIdle(now-live))
		require.LessOrEqual(t, m.Len(), 2*live)
	}
	for born := added - live; born < added; born++ {
		require.True(t, m.Has(born))
		require.Equal(t, born, m.Get(born))
	}
	require.False(t, m.Has(0))
	require.Zero(t, m.Get(0))
	m.Set(added-1, 7)
	require.Equal(t, 7, m.Get(added-1))

	for i := range added { // all others are idle
		m.Add(-1-i%10, added, isIdle(added))
	}
	require.Equal(t, 10, m.Len())
}
