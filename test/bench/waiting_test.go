package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestWaitingIsMeasured(t *testing.T) {
	s := setting(t)
	s.Window = 20 * time.Millisecond
	table := s.waiting()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 4*2*3)
	for _, row := range table.Rows {
		require.Len(t, row, len(table.Columns))
	}
}

func TestReservationsAreCounted(t *testing.T) {
	s := setting(t)
	s.Window = 500 * time.Millisecond
	client := s.Start(s.Module, nil)
	t.Cleanup(client.Close)
	for _, path := range []limiter.Path{limiter.PathModule, limiter.PathScript} {
		result := client.wait(line{limiter.PerSecond(100).Burst(10), 8, path})
		require.NoError(t, s.Err)
		require.Positive(t, result.perSecond)
		require.Less(t, result.perSecond, 200.0, "the burst of a machine that stalls is no rate")
		require.InDelta(t, 1, result.callsPerReservation, 0.2)
		require.Zero(t, result.outOfOrder)
		require.Positive(t, result.p50)
		require.GreaterOrEqual(t, result.p99, result.p50)
	}
}

func TestReservationsOutOfOrderAreSeen(t *testing.T) {
	begin := time.Now()
	at := func(milliseconds int) time.Time { return begin.Add(time.Duration(milliseconds) * time.Millisecond) }
	first := &reservation{asked: at(0), answered: at(2), earliest: at(100), latest: at(102)}
	for name, c := range map[string]struct {
		second *reservation
		want   int
	}{
		"later":               {&reservation{asked: at(3), answered: at(4), earliest: at(110), latest: at(111)}, 0},
		"before the first":    {&reservation{asked: at(3), answered: at(4), earliest: at(90), latest: at(91)}, 1},
		"perhaps before":      {&reservation{asked: at(3), answered: at(4), earliest: at(99), latest: at(100)}, 0},
		"asked meanwhile":     {&reservation{asked: at(1), answered: at(4), earliest: at(90), latest: at(91)}, 0},
		"asked and had first": {&reservation{asked: at(-9), answered: at(-8), earliest: at(-8), latest: at(-7)}, 0},
	} {
		require.Equal(t, c.want, outOfOrder([]*reservation{c.second, first}), name)
	}
}
