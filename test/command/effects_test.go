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
	{"taken", "cl.throttle one 3 1 1", "one", "allowed"},
	{"does not fit", "cl.throttle two 3 1 1 2", "", "limited"},
	{"quantity 0 of an overfull funnel", "cl.throttle two 1 1 1 0", "", "peeked"},
	{"no capacity", "cl.throttle one x 1 1", "", "errors"},

	{"taken from three", "cl.reserve two 3 1 1 1 one 3 1 1 1 new 3 1 1 1", "two one new", "allowed"},
	{"reserved", "cl.reserve one 3 1 1 3 9", "one", "allowed"},
	{"the last of two does not fit", "cl.reserve new 3 1 1 1 two 3 1 1 2", "", "limited"},

	{"taken in part", "cl.take one 3 1 1 3", "one", "allowed"},

	{"peek", "cl.peek one 3 1 1 1 two 3 1 1 4 new 3 1 1 1", "", "peeked"},

	{"charged above the capacity", "cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1", "one two new", "charged"},
	{"the last of two ends too late", "cl.charge one 3 1 1 1 two 1 1 9223372036 1", "", "errors"},

	{"refunded, of which one is empty then", "cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two", "refunded"},
	{"refund of nothing and all", "cl.refund one 3 1 1 0 two 3 1 1 2", "two", "refunded"},
	{"nothing to refund", "cl.refund new 3 1 1 2", "", "refunded"},
	{"refund of a receipt", "cl.refund two 3 1 1 1 @2s", "two", "refunded"},
	{"refund of a receipt that has leaked", "cl.refund two 3 1 1 1 @0s", "", "refunded"},

	{"slot", "cl.reserve new 1 SLOTS 9.0000001 b", "ZADD new +9001 b, PEXPIREAT new +9001", "allowed"},
	{"slot that does not end last", "cl.reserve busy 2 SLOTS 20 b", "ZADD busy +20000 b", "allowed"},
	{"no slot is free", "cl.reserve busy 1 SLOTS 40 b", "", "limited"},
	{"slot and tokens", "cl.reserve one 3 1 1 1 new 1 SLOTS 5 b two 3 1 1 1",
		"one, ZADD new +5000 b, PEXPIREAT new +5000, two", "allowed"},
	{"slot without tokens", "cl.reserve busy 2 SLOTS 40 a new 1 SLOTS 1 a two 3 1 1 2", "", "limited"},
	{"renewed", "cl.reserve busy 0 SLOTS 40 a", "ZADD busy +40000 a, PEXPIREAT busy +40000", "allowed"},
	{"renewed to end earlier", "cl.reserve busy 0 SLOTS 10 a", "ZADD busy +10000 a, PEXPIREAT busy +10000", "allowed"},
	{"renewed to the same millisecond", "cl.reserve busy 0 SLOTS 30 a", "", "allowed"},
	{"renewed to the same millisecond, with one ended", "zadd busy 1 x\ncl.reserve busy 0 SLOTS 30 a", "", "allowed"},
	{"renewal of nothing, with one ended", "zadd busy 1 x\ncl.reserve busy 0 SLOTS 30 x", "", "limited"},
	{"peek at slots, with one ended", "zadd busy 1 x\ncl.peek busy 2 SLOTS 20 b new 1 SLOTS 1 b", "", "peeked"},
	{"slot charged", "cl.charge busy 0 SLOTS 40 b", "ZADD busy +40000 b, PEXPIREAT busy +40000", "charged"},
	{"last slot given back", "cl.refund busy 0 SLOTS 1 a", "ZREM busy a", "refunded"},
	{"slot given back that ended last", "zadd busy +9000 b\ncl.refund busy 1 SLOTS 1 a",
		"ZREM busy a, PEXPIREAT busy +9000", "refunded"},
	{"slot given back that did not end last", "zadd busy +9000 b\ncl.refund busy 1 SLOTS 1 b", "ZREM busy b", "refunded"},
	{"no slot to give back", "zadd busy +0 x\ncl.refund busy 1 SLOTS 1 x", "", "refunded"},
	{"ended ones are removed", "zadd busy 1 x +0 y\ncl.reserve busy 2 SLOTS 30 b",
		"ZADD busy +30000 b, ZREMRANGEBYRANK busy 0 1", "allowed"},
	{"slot of a holder whose last has ended", "zadd busy 1 x 2 b\ncl.reserve busy 2 SLOTS 40 b",
		"ZADD busy +40000 b, ZREMRANGEBYRANK busy 0 0, PEXPIREAT busy +40000", "allowed"},
	{"last slot given back, and ended ones", "zadd busy -inf x 1.5 y\ncl.refund busy 1 SLOTS 1 a",
		"ZREM busy a, ZREMRANGEBYRANK busy 0 1", "refunded"},
	{"beside one that never ends", "zadd busy inf x\ncl.reserve busy 3 SLOTS 1 b", "ZADD busy +1000 b, PERSIST busy",
		"allowed"},
	{"no expiry to remove", "zadd new 9223372036854775808 x\ncl.reserve new 3 SLOTS 1 b", "ZADD new +1000 b", "allowed"},
	{"no expiry, which it should have", "persist busy\ncl.reserve busy 2 SLOTS 9 b",
		"ZADD busy +9000 b, PEXPIREAT busy +30000", "allowed"},
	{"quota", "cl.reserve month 3 UNTIL ^90s 1", "month", "allowed"},
	{"new quota beside a slot and tokens", "cl.reserve new 3 UNTIL ^90s 1 busy 2 SLOTS 9 b one 3 1 1 1",
		"new, ZADD busy +9000 b, one", "allowed"},
	{"quota that is used", "cl.reserve month 3 UNTIL ^90s 3", "", "limited"},
	{"quota that is used in a longer period", "cl.reserve month 3 UNTIL ^91s 3", "", "limited"},
	{"quota that is used, cut", "cl.reserve month 3 UNTIL ^89s 3", "month", "limited"},
	{"quota that is used, not cut within the millisecond", "cl.reserve month 3 UNTIL ^89.9999s 3", "", "limited"},
	{"quota beside a funnel that limits", "cl.reserve month 3 UNTIL ^90s 1 two 3 1 1 2", "", "limited"},
	{"quota beside a funnel that limits, cut", "cl.reserve two 3 1 1 2 month 3 UNTIL ^9s 1 new 3 UNTIL ^9s 1", "month",
		"limited"},
	{"quota of which nothing is asked", "cl.reserve month 3 UNTIL ^90s 0 new 3 UNTIL ^90s 0", "", "peeked"},
	{"quota of which nothing is asked, cut", "cl.reserve month 3 UNTIL ^9s 0", "month", "peeked"},
	{"quota without expiry", "persist month\ncl.reserve month 3 UNTIL ^90s 0", "month", "peeked"},
	{"quota taken in part", "cl.take month 3 UNTIL ^90s 9", "month", "allowed"},
	{"quota of which nothing is left to take", "set month used:3 PXAT +90000\ncl.take month 3 UNTIL ^90s 9", "",
		"limited"},
	{"quota peeked", "cl.peek month 3 UNTIL ^9s 9", "", "peeked"},
	{"quota charged", "cl.charge month 3 UNTIL ^90s 9 new 3 UNTIL ^9s 100", "month new", "charged"},
	{"quota refunded", "cl.refund month 3 UNTIL ^90s 1", "month", "refunded"},
	{"quota refunded in part", "set month used:3 PXAT +90000\ncl.refund month 3 UNTIL ^9s 1", "month", "refunded"},
	{"quota refunded too late", "cl.refund month 3 UNTIL ^0s 1", "", "refunded"},
	{"quota from the first call", "cl.reserve new 3 UNTIL +9 1", "new", "allowed"},
	{"quota from the first call, in the period that runs", "cl.reserve month 3 UNTIL +9 1", "month", "allowed"},
	{"quota from the first call that is used, not cut", "cl.reserve month 3 UNTIL +9 3", "", "limited"},
	{"quota from the first call of which nothing is asked", "cl.reserve new 3 UNTIL +9 0 month 3 UNTIL +9 0", "",
		"peeked"},
	{"quota from the first call that does not fit", "cl.reserve new 3 UNTIL +9 4", "", "limited"},
	{"quota from the first call without expiry", "persist month\ncl.reserve month 3 UNTIL +9 3", "month", "limited"},
	{"quota from the first call without expiry, peeked", "persist month\ncl.peek month 3 UNTIL +9 3", "", "peeked"},
	{"quota from the first call beside a funnel that limits", "cl.reserve new 3 UNTIL +9 1 two 3 1 1 2", "", "limited"},
	{"quota from the first call, taken in part", "cl.take new 3 UNTIL +0.001 9", "new", "allowed"},
	{"quotas from the first call, charged", "cl.charge month 3 UNTIL +9 9 new 3 UNTIL +9 1", "month new", "charged"},
	{"refund of a quota without its period", "cl.refund month 3 UNTIL +90 1", "", "errors"},
	{"quota whose period would end too late", "cl.reserve one 3 1 1 1 new 3 UNTIL +9223372036 1", "", "errors"},
	{"quota whose period has ended", "cl.charge one 3 1 1 1 month 3 UNTIL ^0s 1", "", "errors"},
	{"slots under a funnel's key", "cl.reserve busy 0 SLOTS 40 a one 2 SLOTS 1 b", "", "errors"},
	{"no ttl", "cl.reserve busy 1 SLOTS 0 a", "", "errors"},
	{"one word too many", "cl.peek one 3 1 1 1 1", "", ""}, // the server replies that error, and nothing counts it
}

// TestEffects requires that clients and files see the writes of each call in their order, and
// nothing else, and that INFO counts the call by its outcome.
func TestEffects(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "always",
		"--notify-keyspace-events", "Kg$z"))
	client, ctx := server.Client(t), t.Context()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)

	var want []string // of the append-only file, by row
	for _, c := range effects {
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
		dumps, counts := servertest.Dumps(t, client), countsOf(t, client)

		servertest.Try(client, lines[len(lines)-1])

		commands, events := written(t, client, c.writes)
		if c.counted != "" {
			counts[c.counted]++
		}
		counts["dirty"] += int64(len(commands))
		require.Equal(t, counts, countsOf(t, client), c.name)
		want = append(want, prepared+logged(t, commands))
		require.Equal(t, events, drain(t, client, subscription), c.name)
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(strings.Fields(strings.ReplaceAll(c.writes, ",", "")), key)
			require.Equal(t, touched, dumps[key] != after[key], "%s: the value of %s", c.name, key)
			require.Equal(t, touched, watcher.MustDo(t, "exec") == nil, "%s: WATCH of %s", c.name, key)
		}
	}
	var log strings.Builder
	for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)) {
		log.WriteString(strings.ToUpper(words[0]) + strings.TrimSuffix(" "+strings.Join(words[1:], " "), " ") + "\n")
	}
	got := strings.Split(log.String(), "FLUSHALL\n")[1:]
	require.Len(t, got, len(want))
	for i, c := range effects {
		require.Equal(t, want[i], got[i], c.name)
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
			if value, err := client.Get(t.Context(), key).Result(); err == nil {
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

// TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder: if the clock steps back during a
// call, the server deletes the key as soon as anybody looks at it, by the time at which the call
// began. Redis 8.6 itself looks when it is told that the key was modified. On servers before Redis
// 7.2, another module may look in its event; later servers let modules see expired keys there. The
// log and the replicas get the write before the deletion. Otherwise they would keep a key that the
// server lacks.
func TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder(t *testing.T) {
	looker := servertest.CompileModule(t, "testdata/looker.c", "-nostdlib")
	server := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "no", "--loadmodule", looker))
	ctx, client := t.Context(), server.Client(t)
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
