package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallIsPatchedIntoWhatGoesOverTheWire(t *testing.T) {
	operation := Operation{
		Commands: [][]string{{"GET", "rate:{key}"}, {"ZADD", "{now}-{unique}", "{before}"}},
		Window:   60,
	}
	call := encode(operation, narrowPrefix, Plain)
	want := "*2\r\n$3\r\nGET\r\n$21\r\nrate:lim:000000000042\r\n" +
		"*3\r\n$4\r\nZADD\r\n$26\r\n1795238209689-000000000007\r\n$13\r\n1795238149689\r\n"
	for range 2 { // the same bytes serve again
		require.Equal(t, want, string(call.appendTo(nil, 42, 7, 1795238209689)))
	}
	require.Equal(t, "x"+want, string(call.appendTo([]byte("x"), 42, 7, 1795238209689)), "after what is there already")
}

func TestCallThatIsAnsweredOtherwiseIsAnError(t *testing.T) {
	operation := throttle(Roomy, 1)
	require.NoError(t, encode(operation, roomyPrefix, Allowed).check([]int64{0}))
	require.ErrorContains(t, encode(operation, roomyPrefix, Allowed).check([]int64{1}), "should have been allowed was limited")
	require.NoError(t, encode(operation, roomyPrefix, Plain).check([]int64{1}))
}

func TestDrainRoundsUp(t *testing.T) {
	require.EqualValues(t, 30, Limit{Capacity: 15, Count: 30, Period: 60}.Drain())
	require.EqualValues(t, 1, Limit{Capacity: 1, Count: 1000, Period: 1}.Drain())
}

func TestRedisRateIsRecorded(t *testing.T) {
	source, words := recordRedisRate(Limit{Capacity: 15, Count: 30, Period: 60})
	require.Contains(t, source, "redis.call")
	require.Equal(t, "EVALSHA", words[0])
	require.Equal(t, []string{"1", "rate:{key}", "15", "30", "60", "1"}, words[2:])
}
