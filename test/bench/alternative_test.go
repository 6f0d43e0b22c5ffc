// Each alternative limits as it should, and measurements count and check the calls.

package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// start returns a client of a server that has the scripts of all alternatives.
func start(t *testing.T) *Client {
	s := &Setting{Ctx: t.Context(), Module: servertest.Module(t), Rounds: 3, Round: 5 * time.Millisecond,
		Progress: func(string, ...any) {}}
	s.Marker, s.Err = BuildMarker(t.Context(), t.TempDir())
	client := s.Start(s.Module, nil)
	t.Cleanup(client.Close)
	for _, a := range Alternatives("") {
		for _, script := range a.Scripts {
			client.Do("SCRIPT", "LOAD", script)
		}
	}
	require.NoError(t, s.Err)
	return client
}

// TestAlternativesAllowExactlyTheCapacity: at one instant, each alternative allows as many calls as
// its capacity. All keys of a call, one or three, expire.
func TestAlternativesAllowExactlyTheCapacity(t *testing.T) {
	client := start(t)
	for _, a := range Alternatives("") {
		if a.Yardstick {
			continue
		}
		for _, capacity := range []int{1, 2, 7, 100} {
			client.Do("FLUSHALL")
			limit := Limit{int64(capacity), 1, 3600} // so slow that nothing leaks during the test
			limited := client.Call(a.Operation(limit), slices.Repeat([]string{"k"}, capacity+3)...)
			require.NoError(t, client.Err, a.Name)
			want := append(make([]bool, capacity), true, true, true)
			require.Equal(t, want, limited, "%s: of %d calls, then three beyond", a.Name, capacity)
			require.EqualValues(t, 1+2*strings.Count(a.Name, "3"), client.Do("DBSIZE"), a.Name)
			left := client.Do("PTTL", client.Do("RANDOMKEY")).(int64)
			require.True(t, left > 0 && left <= (limit.Capacity*limit.Period+1)*1000, "%s: the key must expire, in %d ms",
				a.Name, left)
		}
	}
}

// TestFloorDoesWhatTheCommandDoes: the value and the reply of the floor are as long as
// CL.THROTTLE's. A reply that does not match the case is an error.
func TestFloorDoesWhatTheCommandDoes(t *testing.T) {
	client := start(t)
	floors, commands := Cases(choose("floor")), Cases(choose("throttle"))
	lengths := func(c Case) (lengths []int) {
		key := keys(c.ID(), 1)[0]
		client.prepare(c, []string{key})
		for range 10 { // as many calls as a key has had in the middle of a count
			client.expect(c, key)
		}
		for _, number := range client.Do(servertest.ToAny(c.operation.Words(Target{Key: key}))...).([]any) {
			lengths = append(lengths, len(fmt.Sprint(number)))
		}
		require.Positive(t, client.Do("PTTL", key), c.ID())
		return append(lengths, len(client.Do("GET", key).(string)))
	}
	for i, floor := range floors {
		require.Equal(t, lengths(commands[i]), lengths(floor), floor.ID())
	}
	require.NoError(t, client.Err)
	client.expect(commands[1], "fresh")
	require.ErrorContains(t, client.Err, "throttle/limited: a call was limited: false")
	require.Nil(t, client.Do("PING"), "a client does nothing after an error")
}

// TestCallsAreTimed: calls by redis-benchmark and calls from Go are timed.
func TestCallsAreTimed(t *testing.T) {
	s := start(t).Setting
	all := s.load(Cases(choose("set", "throttle", "slot")))
	require.NoError(t, s.Err)
	require.Len(t, all, 3, "without slots")
	for _, l := range all {
		require.Positive(t, min(l.median(rate), l.median(processor)), l.ID())
	}
	require.Equal(t, "1.00 (1.00–1.00)", all[0].ratio(&all[0].contestant, rate))

	table := s.goClients()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 2*11)
	for _, row := range table.Rows {
		require.NotRegexp(t, `NaN|\| (0|0\.0|) \|`, strings.Join(row[:7], " | ")+" |", row)
	}

	table = s.atFixedRates()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 2*5)
	for i, row := range table.Rows {
		require.NotRegexp(t, `NaN|\| (0|) \|`, strings.Join(row, " | ")+" |", row)
		require.Equal(t, i%5 == 4, row[4] == "1.00 (1.00–1.00)", "redis_rate is the reference: %v", row)
	}
}
