// Clients and operators see what a call has written, and nothing else: by WATCH, keyspace events,
// the append-only file and INFO.

package command_test

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

// effects has calls, the writes of each call in their order, and how INFO counts the call.
//
// Before each call, funnel one holds 1 token of 3, and funnel two holds 2 of 3. The holder a has a
// slot of busy for 30 seconds. 1 of 3 of the quota month is used, and its key expires at +90000.
// The key new does not exist. If a call has several lines, the last line is the call, and the lines
// before it are commands of other clients.
//
// The write of a funnel or a quota is given by its key: the command is SET or DEL. The write of
// slots is given by its commands.
var effects = []struct{ name, call, writes, counted string }{
	{name: "taken", call: "cl.throttle one 3 1 1", writes: "one", counted: "allowed"},
	{name: "does not fit", call: "cl.throttle two 3 1 1 2", counted: "limited"},
	{name: "quantity 0 of an overfull funnel", call: "cl.throttle two 1 1 1 0", counted: "peeked"},
	{name: "no capacity", call: "cl.throttle one x 1 1", counted: "errors"},

	{name: "taken from three", call: "cl.reserve two 3 1 1 1 one 3 1 1 1 new 3 1 1 1",
		writes: "two one new", counted: "allowed"},
	{name: "reserved", call: "cl.reserve one 3 1 1 3 9", writes: "one", counted: "allowed"},
	{name: "the last of two does not fit", call: "cl.reserve new 3 1 1 1 two 3 1 1 2",
		counted: "limited"},

	{name: "taken in part", call: "cl.take one 3 1 1 3", writes: "one", counted: "allowed"},

	{name: "peek", call: "cl.peek one 3 1 1 1 two 3 1 1 4 new 3 1 1 1", counted: "peeked"},

	{name: "charged above the capacity", call: "cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1",
		writes: "one two new", counted: "charged"},
	{name: "the last of two ends too late", call: "cl.charge one 3 1 1 1 two 1 1 9223372036 1",
		counted: "errors"},

	{name: "refunded, of which one is empty then",
		call:   "cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1",
		writes: "one two", counted: "refunded"},
	{name: "refund of nothing and all", call: "cl.refund one 3 1 1 0 two 3 1 1 2",
		writes: "two", counted: "refunded"},
	{name: "nothing to refund", call: "cl.refund new 3 1 1 2", counted: "refunded"},
	{name: "refund of a receipt", call: "cl.refund two 3 1 1 1 @2s",
		writes: "two", counted: "refunded"},
	{name: "refund of a receipt that has leaked", call: "cl.refund two 3 1 1 1 @0s",
		counted: "refunded"},

	{name: "slot", call: "cl.reserve new 1 SLOTS 9.0000001 b",
		writes: "ZADD new +9001 b, PEXPIREAT new +9001", counted: "allowed"},
	{name: "slot that does not end last", call: "cl.reserve busy 2 SLOTS 20 b",
		writes: "ZADD busy +20000 b", counted: "allowed"},
	{name: "no slot is free", call: "cl.reserve busy 1 SLOTS 40 b", counted: "limited"},
	{name: "slot and tokens", call: "cl.reserve one 3 1 1 1 new 1 SLOTS 5 b two 3 1 1 1",
		writes: "one, ZADD new +5000 b, PEXPIREAT new +5000, two", counted: "allowed"},
	{name: "slot without tokens", call: "cl.reserve busy 2 SLOTS 40 a new 1 SLOTS 1 a two 3 1 1 2",
		counted: "limited"},
	{name: "renewed", call: "cl.reserve busy 0 SLOTS 40 a",
		writes: "ZADD busy +40000 a, PEXPIREAT busy +40000", counted: "allowed"},
	{name: "renewed to end earlier", call: "cl.reserve busy 0 SLOTS 10 a",
		writes: "ZADD busy +10000 a, PEXPIREAT busy +10000", counted: "allowed"},
	{name: "renewed to the same millisecond", call: "cl.reserve busy 0 SLOTS 30 a",
		counted: "allowed"},
	{name: "renewed to the same millisecond, with one ended",
		call:    "zadd busy 1 x\ncl.reserve busy 0 SLOTS 30 a",
		counted: "allowed"},
	{name: "renewal of nothing, with one ended",
		call:    "zadd busy 1 x\ncl.reserve busy 0 SLOTS 30 x",
		counted: "limited"},
	{name: "peek at slots, with one ended",
		call:    "zadd busy 1 x\ncl.peek busy 2 SLOTS 20 b new 1 SLOTS 1 b",
		counted: "peeked"},
	{name: "slot charged", call: "cl.charge busy 0 SLOTS 40 b",
		writes: "ZADD busy +40000 b, PEXPIREAT busy +40000", counted: "charged"},
	{name: "last slot given back", call: "cl.refund busy 0 SLOTS 1 a",
		writes: "ZREM busy a", counted: "refunded"},
	{name: "slot given back that ended last", call: "zadd busy +9000 b\ncl.refund busy 1 SLOTS 1 a",
		writes: "ZREM busy a, PEXPIREAT busy +9000", counted: "refunded"},
	{name: "slot given back that did not end last",
		call:   "zadd busy +9000 b\ncl.refund busy 1 SLOTS 1 b",
		writes: "ZREM busy b", counted: "refunded"},
	{name: "no slot to give back", call: "zadd busy +0 x\ncl.refund busy 1 SLOTS 1 x",
		counted: "refunded"},
	{name: "ended ones are removed", call: "zadd busy 1 x +0 y\ncl.reserve busy 2 SLOTS 30 b",
		writes: "ZADD busy +30000 b, ZREMRANGEBYRANK busy 0 1", counted: "allowed"},
	{name: "slot of a holder whose last has ended",
		call:    "zadd busy 1 x 2 b\ncl.reserve busy 2 SLOTS 40 b",
		writes:  "ZADD busy +40000 b, ZREMRANGEBYRANK busy 0 0, PEXPIREAT busy +40000",
		counted: "allowed"},
	{name: "last slot given back, and ended ones",
		call:   "zadd busy -inf x 1.5 y\ncl.refund busy 1 SLOTS 1 a",
		writes: "ZREM busy a, ZREMRANGEBYRANK busy 0 1", counted: "refunded"},
	{name: "beside one that never ends", call: "zadd busy inf x\ncl.reserve busy 3 SLOTS 1 b",
		writes: "ZADD busy +1000 b, PERSIST busy", counted: "allowed"},
	{name: "no expiry to remove",
		call:   "zadd new 9223372036854775808 x\ncl.reserve new 3 SLOTS 1 b",
		writes: "ZADD new +1000 b", counted: "allowed"},
	{name: "no expiry, which it should have", call: "persist busy\ncl.reserve busy 2 SLOTS 9 b",
		writes: "ZADD busy +9000 b, PEXPIREAT busy +30000", counted: "allowed"},
	{name: "quota", call: "cl.reserve month 3 UNTIL ^90s 1", writes: "month", counted: "allowed"},
	{name: "new quota beside a slot and tokens",
		call:   "cl.reserve new 3 UNTIL ^90s 1 busy 2 SLOTS 9 b one 3 1 1 1",
		writes: "new, ZADD busy +9000 b, one", counted: "allowed"},
	{name: "quota that is used", call: "cl.reserve month 3 UNTIL ^90s 3", counted: "limited"},
	{name: "quota that is used in a longer period", call: "cl.reserve month 3 UNTIL ^91s 3",
		counted: "limited"},
	{name: "quota that is used, cut", call: "cl.reserve month 3 UNTIL ^89s 3",
		writes: "month", counted: "limited"},
	{name: "quota that is used, not cut within the millisecond",
		call:    "cl.reserve month 3 UNTIL ^89.9999s 3",
		counted: "limited"},
	{name: "quota beside a funnel that limits", call: "cl.reserve month 3 UNTIL ^90s 1 two 3 1 1 2",
		counted: "limited"},
	{name: "quota beside a funnel that limits, cut",
		call:   "cl.reserve two 3 1 1 2 month 3 UNTIL ^9s 1 new 3 UNTIL ^9s 1",
		writes: "month", counted: "limited"},
	{name: "quota of which nothing is asked",
		call:    "cl.reserve month 3 UNTIL ^90s 0 new 3 UNTIL ^90s 0",
		counted: "peeked"},
	{name: "quota of which nothing is asked, cut", call: "cl.reserve month 3 UNTIL ^9s 0",
		writes: "month", counted: "peeked"},
	{name: "quota without expiry", call: "persist month\ncl.reserve month 3 UNTIL ^90s 0",
		writes: "month", counted: "peeked"},
	{name: "quota taken in part", call: "cl.take month 3 UNTIL ^90s 9",
		writes: "month", counted: "allowed"},
	{name: "quota of which nothing is left to take",
		call:    "set month used:3 PXAT +90000\ncl.take month 3 UNTIL ^90s 9",
		counted: "limited"},
	{name: "quota peeked", call: "cl.peek month 3 UNTIL ^9s 9", counted: "peeked"},
	{name: "quota charged", call: "cl.charge month 3 UNTIL ^90s 9 new 3 UNTIL ^9s 100",
		writes: "month new", counted: "charged"},
	{name: "quota refunded", call: "cl.refund month 3 UNTIL ^90s 1",
		writes: "month", counted: "refunded"},
	{name: "quota refunded in part",
		call:   "set month used:3 PXAT +90000\ncl.refund month 3 UNTIL ^9s 1",
		writes: "month", counted: "refunded"},
	{name: "quota refunded too late", call: "cl.refund month 3 UNTIL ^0s 1", counted: "refunded"},
	{name: "quota from the first call", call: "cl.reserve new 3 UNTIL +9 1",
		writes: "new", counted: "allowed"},
	{name: "quota from the first call, in the period that runs",
		call:   "cl.reserve month 3 UNTIL +9 1",
		writes: "month", counted: "allowed"},
	{name: "quota from the first call that is used, not cut", call: "cl.reserve month 3 UNTIL +9 3",
		counted: "limited"},
	{name: "quota from the first call of which nothing is asked",
		call:    "cl.reserve new 3 UNTIL +9 0 month 3 UNTIL +9 0",
		counted: "peeked"},
	{name: "quota from the first call that does not fit", call: "cl.reserve new 3 UNTIL +9 4",
		counted: "limited"},
	{name: "quota from the first call without expiry",
		call:   "persist month\ncl.reserve month 3 UNTIL +9 3",
		writes: "month", counted: "limited"},
	{name: "quota from the first call without expiry, peeked",
		call:    "persist month\ncl.peek month 3 UNTIL +9 3",
		counted: "peeked"},
	{name: "quota from the first call beside a funnel that limits",
		call:    "cl.reserve new 3 UNTIL +9 1 two 3 1 1 2",
		counted: "limited"},
	{name: "quota from the first call, taken in part", call: "cl.take new 3 UNTIL +0.001 9",
		writes: "new", counted: "allowed"},
	{name: "quotas from the first call, charged",
		call:   "cl.charge month 3 UNTIL +9 9 new 3 UNTIL +9 1",
		writes: "month new", counted: "charged"},
	{name: "refund of a quota without its period", call: "cl.refund month 3 UNTIL +90 1",
		counted: "errors"},
	{name: "quota whose period would end too late",
		call:    "cl.reserve one 3 1 1 1 new 3 UNTIL +9223372036 1",
		counted: "errors"},
	{name: "quota whose period has ended", call: "cl.charge one 3 1 1 1 month 3 UNTIL ^0s 1",
		counted: "errors"},
	{name: "slots under a funnel's key", call: "cl.reserve busy 0 SLOTS 40 a one 2 SLOTS 1 b",
		counted: "errors"},
	{name: "no ttl", call: "cl.reserve busy 1 SLOTS 0 a", counted: "errors"},
	// The server itself replies this error, and nothing counts it.
	{name: "one word too many", call: "cl.peek one 3 1 1 1 1"},
}

// TestEffects requires that clients and files see the writes of each call in their order, and
// nothing else, and that INFO counts the call by its outcome.
func TestEffects(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "always",
		"--notify-keyspace-events", "Kg$z"))
	client := server.Client(t)
	ctx := t.Context()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)

	var want []string // of the append-only file, by row
	for _, c := range effects {
		what := c.name + ": " + c.call + ": "
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Call(t, client,
			"cl.charge one 3 1 1 1 two 3 1 1 2 busy 1 SLOTS 30 a "+withInstants("month 3 UNTIL ^90s 1"))
		commands, _ := written(t, client, "one two, ZADD busy +30000 a, PEXPIREAT busy +30000, month")
		prepared := logged(t, commands)
		lines := strings.Split(withInstants(c.call), "\n")
		for _, line := range lines[:len(lines)-1] {
			servertest.Call(t, client, line)
			command, words, _ := strings.Cut(line, " ")
			prepared += strings.ToUpper(command) + " " + words + "\n"
		}
		drain(t, client, subscription)
		watchers := map[string]*servertest.Wire{}
		for _, key := range []string{"one", "two", "new", "busy", "month"} {
			watchers[key] = server.Wire(t)
			require.Equal(t, "OK", watchers[key].MustDo(t, "watch", key))
			require.Equal(t, "OK", watchers[key].MustDo(t, "multi"))
		}
		dumps := servertest.Dumps(t, client)
		counts := countsOf(t, client)

		servertest.Try(client, lines[len(lines)-1])

		commands, events := written(t, client, c.writes)
		if c.counted != "" {
			counts[c.counted]++
		}
		counts["dirty"] += int64(len(commands))
		require.Equal(t, counts, countsOf(t, client), what+"INFO counts")
		want = append(want, prepared+logged(t, commands))
		require.Equal(t, events, drain(t, client, subscription), what+"keyspace events")
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(strings.Fields(strings.ReplaceAll(c.writes, ",", "")), key)
			require.Equal(t, touched, dumps[key] != after[key], "%sthe value of %s", what, key)
			require.Equal(t, touched, watcher.MustDo(t, "exec") == nil, "%sWATCH of %s", what, key)
		}
	}
	var log strings.Builder
	for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)) {
		log.WriteString(strings.ToUpper(words[0]) + strings.TrimSuffix(" "+strings.Join(words[1:], " "), " ") + "\n")
	}
	got := strings.Split(log.String(), "FLUSHALL\n")[1:]
	require.Len(t, got, len(want))
	for i, c := range effects {
		require.Equal(t, want[i], got[i], "%s: %s: append-only file", c.name, c.call)
	}
}

// written returns the commands in the append-only file and the keyspace events of a call with these
// writes, which have the form of effects.
func written(t *testing.T, client *redis.Client, writes string) (commands, events []string) {
	slots := ""
	for write := range strings.SplitSeq(withInstants(writes), ", ") {
		words := strings.Fields(write)
		if len(words) > 1 && words[0] == strings.ToUpper(words[0]) {
			slots = words[1]
			commands = append(commands, write)
			events = append(events, slots+" "+eventOf[words[0]])
			continue
		}
		for _, key := range words {
			value, err := client.Get(t.Context(), key).Result()
			if err == nil {
				commands = append(commands, fmt.Sprintf("SET %s %s PXAT %d", key, value, servertest.ExpiryOf(t, client, key)))
				events = append(events, key+" set", key+" expire")
			} else {
				commands = append(commands, "DEL "+key)
				events = append(events, key+" del")
			}
		}
	}
	if slots != "" && client.Exists(t.Context(), slots).Val() == 0 {
		events = append(events, slots+" del")
	}
	return commands, events
}

var eventOf = map[string]string{"ZADD": "zadd", "ZREM": "zrem", "ZREMRANGEBYRANK": "zremrangebyrank",
	"PEXPIREAT": "expire", "PERSIST": "persist"}

// logged returns the commands of one call in the form of the append-only file.
func logged(t *testing.T, commands []string) string {
	if servertest.Since7(t) && len(commands) > 1 {
		commands = slices.Concat([]string{"MULTI"}, commands, []string{"EXEC"})
	}
	return strings.Join(append(commands, ""), "\n")
}

// countsOf returns how INFO has counted calls, by outcome, and the number of changes since the last
// save.
func countsOf(t *testing.T, client *redis.Client) map[string]int64 {
	counts := map[string]int64{"dirty": servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")}
	for _, outcome := range []string{"allowed", "limited", "peeked", "charged", "refunded", "errors"} {
		counts[outcome] = servertest.InfoField(t, client, "funnel", "funnel_"+outcome)
	}
	return counts
}

// drain returns the keyspace events since the last drain.
func drain(t *testing.T, client *redis.Client, subscription *redis.PubSub) (events []string) {
	require.NoError(t, client.Publish(t.Context(), "__keyspace@0__:", "end").Err())
	for {
		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if message.Payload == "end" {
			return events
		}
		events = append(events, strings.TrimPrefix(message.Channel, "__keyspace@0__:")+" "+message.Payload)
	}
}

// TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder: the clock steps back during a call.
// By the time at which the call began, its key has then expired, and the server deletes the key as
// soon as anybody looks at it. Redis 8.6 itself looks when it is told that the key was modified.
// Before Redis 7.2, another module may look in its event; later servers let modules see expired
// keys there. The log and the replicas must get the write before the deletion. Otherwise they would
// keep a key that the server lacks.
func TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder(t *testing.T) {
	looker := servertest.CompileModule(t, "testdata/looker.c", "-nostdlib")
	server := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "no", "--loadmodule", looker))
	ctx := t.Context()
	client := server.Client(t)
	servertest.ClockOf(client).Set(t, time.Now().Add(-time.Hour))
	servertest.Call(t, client, "cl.throttle key 15 30 60")
	require.EqualValues(t, 1, client.Incr(ctx, "key").Val(), "the key was gone")
	var log []string
	for _, words := range servertest.ReadAppendOnlyFile(t, server) {
		if slices.Contains(words, "key") {
			log = append(log, strings.Replace(strings.ToLower(words[0]), "unlink", "del", 1))
		}
	}
	require.Equal(t, []string{"set", "del", "incr"}, log)
	require.NoError(t, client.Do(ctx, "debug", "loadaof").Err())
	require.Equal(t, "1", client.Get(ctx, "key").Val(), "the log says otherwise")
}
