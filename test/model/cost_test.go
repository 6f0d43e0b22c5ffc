// A call leaves nothing in the server's memory except its keys, even if it fails. Slots that have
// ended cost memory until calls have removed them, but no time.

package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

func TestNoCallKeepsMemory(t *testing.T) {
	const fast, slow = " 1000000000 1 0.000000001 1 ", " 2 1 1000000 1 "
	server := servertest.StartModule(t)
	client := server.Client(t)
	wire := server.Wire(t)
	require.NoError(t, client.LPush(t.Context(), "list", 1).Err())
	require.NoError(t, client.Set(t.Context(), "text", "no funnel", 0).Err())
	servertest.Call(t, client, "cl.charge full 1 SLOTS 10000 running")
	const fill = `for i = 1, 300 do redis.call('ZADD', KEYS[1], i, 'ended:' .. i, 4102444800000, 'running:' .. i) end`
	require.ErrorIs(t, client.Eval(t.Context(), fill, []string{"many"}).Err(), redis.Nil)
	for name, lines := range map[string][]string{
		"allowed":               {"cl.throttle a 9223372036854775807 1 0.000000001"},
		"allowed on a new key":  {"cl.throttle new 1 1 1", "del new"},
		"allowed of several":    {"cl.reserve a" + fast + "b" + fast + "c" + fast},
		"allowed later":         {"cl.reserve a 1 1 0.000000001 1 9"},
		"taken in part":         {"cl.take j 2 1 1000000 9", "del j"},
		"limited":               {"cl.throttle d" + slow},
		"limited of several":    {"cl.reserve d" + slow + "e" + slow + "a" + fast},
		"peeked":                {"cl.peek a" + fast + "d" + slow + "absent" + fast},
		"charged":               {"cl.charge a" + fast + "b" + fast},
		"given back":            {"cl.charge f" + slow + "g" + slow, "cl.refund f" + slow + "g" + slow},
		"given by a receipt":    {"cl.charge k" + slow, "cl.refund k" + slow + "9223372036854775806"},
		"nothing to give":       {"cl.refund h" + slow + "i" + slow},
		"slot taken":            {"cl.reserve l 2 SLOTS 1000 h m 2 SLOTS 1000 h", "cl.refund m 2 SLOTS 1 h l 2 SLOTS 1 h"},
		"slot renewed":          {"cl.charge n 0 SLOTS 1000 h", "cl.reserve n 0 SLOTS 2000 h"},
		"no slot":               {"cl.reserve full 1 SLOTS 1000 h", "cl.peek full 2 SLOTS 1000 h"},
		"counted by the server": {"cl.peek many 1000 SLOTS 1000 h"},
		"quota used":            {"cl.reserve q 9 UNTIL 4102444800 3", "cl.refund q 9 UNTIL 4102444800 3"},
		"quota used in part":    {"cl.take p 2 UNTIL 4102444800 3", "cl.charge p 2 UNTIL 4102444800 3", "del p"},
		"quota cut":             {"cl.charge r 1 UNTIL 4102444801 1", "cl.reserve r 1 UNTIL 4102444800 1", "del r"},
		"quota ended":           {"cl.charge a" + fast + "o 9 UNTIL 1000 1", "cl.refund o 9 UNTIL 1000 1"},
		"no quota":              {"cl.peek text 9 UNTIL 4102444800 1"},
		// Two TTLs, because a renewal within a millisecond changes nothing and so removes nothing.
		"ended slots": {
			"zadd s 1 x 2 y 3 z", "cl.charge s 1 SLOTS 1000 h",
			"zadd s 1 x 2 y 3 z", "cl.charge s 1 SLOTS 2000 h",
		},
		"number of words":    {"cl.reserve a" + fast + "b c"},
		"wrong argument":     {"cl.charge a" + fast + "b 1 x 1 1"},
		"named twice":        {"cl.charge a" + fast + "b" + fast + "a" + fast},
		"another type":       {"cl.charge a" + fast + "list" + fast + "b" + fast},
		"no funnel":          {"cl.peek a" + fast + "text" + fast + "b" + fast},
		"too large together": {"cl.charge a" + fast + "b 1 1 9223372036 1"},
	} {
		round := func(calls int) {
			require.NoError(t, servertest.CallMany(wire, calls,
				func(i int) []string { return strings.Fields(lines[i%len(lines)]) },
				func(int, any) error { return nil }), name)
		}
		round(2_000) // the server now has the buffers that it keeps
		used := servertest.InfoField(t, client, "memory", "used_memory")
		resident := servertest.MemoryOf(t, server, "VmRSS")
		round(servertest.QuickOrLong(10_000, 1_000_000))
		require.Less(t, servertest.InfoField(t, client, "memory", "used_memory"), used+64<<10, name)
		require.Less(t, servertest.MemoryOf(t, server, "VmRSS"), resident+1<<20, name)
	}
}

// TestEndedSlotsCostNothing: a key has very many slots that have ended. A call that writes nothing
// steps through few of them, and a call that writes removes a thousand.
func TestEndedSlotsCostNothing(t *testing.T) {
	client := clientOfSlots(t, `'ended:' .. i`, servertest.QuickOrLong(150_000, 1_000_000))
	servertest.Call(t, client, "cl.charge k 1 SLOTS 60 last") // the key has not expired
	for _, c := range []struct {
		call    string // %d becomes another number in each round
		removes int
	}{
		{"cl.peek k 1 SLOTS 30 h%d", 0},
		{"cl.reserve k 0 SLOTS 30 h%d", 0},
		{"cl.charge k 1 SLOTS 30 h%d", 1000},
		{"cl.peek k 1 SLOTS 30 more%d", 0},
		{"cl.reserve k 1 SLOTS 30 more%d", 0},
		{"cl.reserve k 0 SLOTS 31 h%d", 1000},
		{"cl.refund k 1 SLOTS 30 h%d", 1000},
	} {
		before := client.ZCount(t.Context(), "k", "-inf", "1e9").Val()
		took := fastest(t, client, c.call)
		require.EqualValues(t, before-int64(c.removes*rounds), client.ZCount(t.Context(), "k", "-inf", "1e9").Val(), c.call)
		beside := "zrange k 0 127"
		if c.removes > 0 {
			beside = "zremrangebyrank k 0 999"
		}
		require.Less(t, took, 20*fastest(t, client, beside), "%s, beside %s", c.call, beside)
	}
}

// clientOfSlots returns a client of a server whose key k has these members, in Lua, for each i from
// 1 to count. The first member has the score i. SLOWLOG records every call.
func clientOfSlots(t *testing.T, members string, count int) *redis.Client {
	client, _ := servertest.StartWithClock(t)
	fill := fmt.Sprintf("for i = 1, %d do redis.call('ZADD', KEYS[1], i, %s) end", count, members)
	require.ErrorIs(t, client.Eval(t.Context(), fill, []string{"k"}).Err(), redis.Nil)
	require.NoError(t, client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	return client
}

// rounds is how many times a call is measured.
const rounds = 20

// fastest returns the time of the fastest of several calls, by SLOWLOG, because the machine has
// other work. %d becomes another number in each call.
func fastest(t *testing.T, client *redis.Client, call string) time.Duration {
	require.NoError(t, client.Do(t.Context(), "slowlog", "reset").Err())
	for round := range rounds {
		servertest.Call(t, client, strings.ReplaceAll(call, "%d", fmt.Sprint(round)))
	}
	var took []time.Duration
	for _, entry := range client.SlowLogGet(t.Context(), 1000).Val() {
		if strings.HasPrefix(call, entry.Args[0]+" ") { // not a command that the module calls
			took = append(took, entry.Duration)
		}
	}
	require.Len(t, took, rounds)
	t.Logf("%s: at least %v", call, slices.Min(took))
	return slices.Min(took)
}

// TestManySlotsAreCountedAtOnce: if many slots run and many have ended, a call steps through
// neither.
func TestManySlotsAreCountedAtOnce(t *testing.T) {
	count := servertest.QuickOrLong(50_000, 500_000)
	client := clientOfSlots(t, `'ended:' .. i, 4102444800000, 'just ended:' .. i, 4102444800000 + i, 'running:' .. i`,
		count)
	beside := fastest(t, client, "zrange k 0 127")
	for _, limit := range []int{count / 2, count, count + 1, 10 * count} {
		call := fmt.Sprintf("cl.peek k %d SLOTS 30 h%%d", limit)
		require.Less(t, fastest(t, client, call), 20*beside, call)
		want := fmt.Sprintf("0 0 [0 %d %d 0 %d]", limit, limit-count, count/1000)
		if limit <= count {
			want = fmt.Sprintf("1 0.001 [1 %d 0 0.001 %d]", limit, count/1000)
		}
		require.Equal(t, want, servertest.Call(t, client, fmt.Sprintf(call, 0)))
	}
}
