package bench

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// setting uses our own module as the peer.
func setting(t *testing.T) *Setting {
	t.Helper()
	marker, err := BuildMarker(t.Context(), t.TempDir())
	require.NoError(t, err)
	return &Setting{Ctx: t.Context(), Module: servertest.Module(t), Peer: servertest.Module(t), Marker: marker, Rounds: 3, Progress: t.Logf}
}

// start starts a server with the scripts of all alternatives, and returns those that limit.
func start(t *testing.T) (*Client, []Alternative) {
	t.Helper()
	s := setting(t)
	client := s.Start(s.Module, nil)
	require.NoError(t, s.Err)
	t.Cleanup(client.Close)
	var limiters []Alternative
	for _, a := range s.Alternatives() {
		if a.Yardstick || a.Name == "incr" && !servertest.Since7(t) { // which has EXPIRE with NX
			continue
		}
		if a.Script != "" {
			client.Do("SCRIPT", "LOAD", a.Script)
		}
		limiters = append(limiters, a)
	}
	require.NoError(t, client.Err)
	return client, limiters
}

// call makes one call on a key that the alternative has to itself.
func call(t *testing.T, client *Client, a Alternative, limit Limit, quantity int64) bool {
	t.Helper()
	limited := client.Call(a.Operation(limit, quantity), a.Name)
	require.NoError(t, client.Err, a.Name)
	return limited[0]
}

// TestAlternativesAllowExactlyTheCapacity at one instant, whatever was peeked before, and
// leave one key that expires, or three.
func TestAlternativesAllowExactlyTheCapacity(t *testing.T) {
	client, limiters := start(t)
	for _, a := range limiters {
		for _, capacity := range []int64{1, 2, 7, 100} {
			client.Do("FLUSHALL")
			limit := Limit{capacity, 1, 3600} // so slow that nothing leaks during the test
			for range 3 {
				require.False(t, a.Peeks && call(t, client, a, limit, 0), "%s: a peek", a.Name)
			}
			for i := range capacity {
				require.False(t, call(t, client, a, limit, 1), "%s: call %d of %d", a.Name, i+1, capacity)
			}
			for range 3 {
				require.True(t, call(t, client, a, limit, 1), "%s: a call beyond %d", a.Name, capacity)
			}
			keys := 1
			if strings.HasSuffix(a.Name, "3") {
				keys = 3
			}
			require.EqualValues(t, keys, client.Do("DBSIZE"), a.Name)
			left := client.Do("PTTL", client.Do("RANDOMKEY")).(int64)
			require.Positive(t, left, "%s: the key must expire", a.Name)
			require.LessOrEqual(t, left, (limit.Drain()+1)*1000, a.Name)
		}
	}
}

// The script of ours answers what the command does.
func TestGCRAInLuaAnswersLikeTheCommand(t *testing.T) {
	client, _ := start(t)
	for i := range 20 {
		arguments := []any{15, 30, 60, 1 + i%3}
		want := client.Do(append([]any{"CL.THROTTLE", "a"}, arguments...)...)
		got := client.Do(append([]any{"EVAL", gcraScript, 1, "b"}, arguments...)...)
		require.NoError(t, client.Err)
		require.Equal(t, want, got, "call %d", i+1)
	}
}

func TestRedisRateIsSentAsItsLibraryDoes(t *testing.T) {
	eval := recordRedisRate(redis_rate.Limit{Burst: 15, Rate: 30, Period: time.Minute}, "k")
	require.Contains(t, redisRateScript, "redis.call")
	require.Equal(t, redisRateScript, eval[1])
	commands := redisRate(Limit{Capacity: 15, Count: 30, Period: 60}, 1).Commands(Call{Key: "k"})
	require.Equal(t, fmt.Sprint("EVALSHA ", hash(redisRateScript), eval[2:]), fmt.Sprint(commands[0][0], " ", commands[0][1], commands[0][2:]))
}

// What the floor leaves and replies is as long as what CL.THROTTLE does, or it would not
// be the floor of that. Its rows are those of CL.RESERVE, but for the length of their times.
func TestFloorDoesWhatTheCommandDoes(t *testing.T) {
	client, _ := start(t)
	for _, c := range Cases(choose("floor", "throttle")) {
		if c.Case == "peek" {
			continue
		}
		key := keys(c.Case+":", 1)[0]
		client.Do("DEL", key)
		client.prepare(c, []string{key})
		client.expect(c, key)
		require.NoError(t, client.Err)
		require.Len(t, client.Do("GET", key), 19, c.ID())
		require.Positive(t, client.Do("PTTL", key), c.ID())
	}
	floors, commands := Cases(choose("floor")), Cases(choose("throttle"))
	for i, floor := range floors {
		client.prepare(commands[i], []string{"a"})
		require.Equal(t, lengths(client, commands[i]), lengths(client, floor), floor.ID())
		client.Do("DEL", "a")
	}
	for _, name := range []string{"reserve", "reserve3"} {
		floors, commands := Cases(choose(name+"-floor")), Cases(choose(name))
		for i, floor := range floors {
			client.prepare(commands[i], []string{"a"})
			require.Equal(t, receipts(client, commands[i]), receipts(client, floor), floor.ID())
			client.Do("FLUSHALL")
		}
	}
}

// replyTo is the reply to a call.
func replyTo(client *Client, c Case) []any {
	return client.Do(servertest.ToAny(c.operation.Commands(Call{Key: "a"})[0])...).([]any)
}

// receipts are the lengths of the rows in a reply, and of the receipts in them.
func receipts(client *Client, c Case) (lengths [][2]int) {
	for _, row := range replyTo(client, c)[2].([]any) {
		last := len(row.([]any)) - 1
		lengths = append(lengths, [2]int{last + 1, len(fmt.Sprint(row.([]any)[last]))})
	}
	return lengths
}

// lengths are those of the numbers in a reply, after as many calls as a key has seen in
// the middle of what is counted.
func lengths(client *Client, c Case) (lengths []int) {
	for range 10 {
		client.expect(c, "a")
	}
	for _, number := range replyTo(client, c) {
		lengths = append(lengths, len(fmt.Sprint(number)))
	}
	return lengths
}

func TestReplyThatIsNotWhatTheCaseWantsIsAnError(t *testing.T) {
	client, _ := start(t)
	c := Cases(choose("throttle"))[1]
	client.expect(c, "fresh")
	require.ErrorContains(t, client.Err, "throttle/limited: a call was limited: false")
	require.Nil(t, client.Do("PING"), "nothing is done after an error")
}

// Few calls and wide bounds: whether counting works, not what comes out.
func TestInstructionsAreCounted(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("a server under callgrind takes its time: FUNNEL_LONG=1")
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Skip("valgrind is not installed")
	}
	s := setting(t)
	counts := s.Count(s.Module, Cases(choose("get", "throttle")), 320)
	require.NoError(t, s.Err)
	require.Len(t, counts, 4)
	require.Greater(t, counts["get"].PerCall, 500.0)
	require.Less(t, counts["get"].PerCall, counts["throttle/limited"].PerCall)
	require.Less(t, counts["throttle/limited"].PerCall, counts["throttle/allowed"].PerCall)
}

func TestRedisBenchmarkIsTimed(t *testing.T) {
	s := setting(t)
	cases := Cases(choose("set", "throttle", "window"))
	runs := s.measure(cases, load{clients: 2, pipeline: 4, keys: 10, replica: true})
	require.NoError(t, s.Err)
	require.Len(t, runs, 4, "without the two of the window")
	for _, r := range runs {
		require.Len(t, r.rounds, 3)
		for _, figure := range []int{rate, processor, p50, p99} {
			require.Positive(t, r.median(figure), "%s: figure %d", r.ID(), figure)
		}
	}
	require.Equal(t, "1.00 (1.00 to 1.00)", ratio(runs[0], runs[0], rate))
}
