package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientsInGoAreTimed(t *testing.T) {
	s := setting(t)
	s.Window = 200 * time.Millisecond
	table := s.goClients()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 10)
	for _, row := range table.Rows {
		require.Len(t, row, len(table.Columns))
		for column, cell := range row {
			require.NotContains(t, []string{"", "0", "0.0"}, cell, "%s: %s", row[0], table.Columns[column])
		}
	}
}

func TestLeasesAreMeasured(t *testing.T) {
	s := setting(t)
	s.Window = 50 * time.Millisecond
	hotKey, leases := s.hotKey().Rows, s.leases().Rows
	require.NoError(t, s.Err)
	require.Equal(t, []int{3 * 7, 3*5 + 1}, []int{len(hotKey), len(leases)})
	for _, row := range leases {
		require.True(t, row[1] != "0.5" || row[2] == "1.000", "half of the rate is granted: %v", row)
	}
}

func TestWorstStretchAndFullest(t *testing.T) {
	instants := []int64{0, 0, 45, 50, 52, 100, 101}
	require.InDelta(t, 3-0.7, worstStretch(instants, 10), 1e-9)
	require.Equal(t, []float64{2, 3}, []float64{fullest(instants, 6), fullest(instants, 7)})
}

func TestLocalCountsKnowOfEachOther(t *testing.T) {
	client := setting(t).Start("", nil)
	defer client.Close()
	now, counters := time.Now().Truncate(time.Second), []*localCounter{newLocalCounter("key", 10, time.Second), newLocalCounter("key", 10, time.Second)}
	for i := range 22 { // both allow 10 calls, and add them to Redis
		_, _ = counters[i%2].allow(now)
	}
	for i := range 3 {
		counters[i%2].reconcile(t.Context(), client.redis, now)
	}
	for i := range 6 {
		is, err := counters[0].allow(now.Add(1750 * time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, i < 5, is, "a quarter of the window before, in which both allowed 10, is left: call %d", i)
	}
}
