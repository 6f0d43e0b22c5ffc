package command_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// callOf is a call of one funnel.
func callOf(command string) []any { return servertest.Words(command + " user:1 2 1 1000 1") }

// TestFunnelsKeysAreFound by servers and clients: words 1, 6, 11, ...
func TestFunnelsKeysAreFound(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for line, keys := range map[string][]string{
		"a 2 1 1 1":                                    {"a"},
		"a 2 1 1 1 b 2 1 1 1":                          {"a", "b"},
		"a 2 1 1 1 b 2 1 1 1 c 2 1 1 1":                {"a", "b", "c"},
		"a 2 1 1 1" + strings.Repeat(" k 2 1 1 1", 63): append([]string{"a"}, slices.Repeat([]string{"k"}, 63)...),
	} {
		for _, command := range funnelsCommands {
			lines := []string{line}
			if command == "cl.reserve" {
				lines = append(lines, line+" 0.5")
			}
			for _, line := range lines {
				call := servertest.Words(command + " " + line)
				found, err := client.Do(ctx, append([]any{"command", "getkeys"}, call...)...).StringSlice()
				require.NoError(t, err)
				require.Equal(t, keys, found, "%s", call)
				if !servertest.Since7(t) {
					continue
				}
				flagged, err := client.Do(ctx, append([]any{"command", "getkeysandflags"}, call...)...).Slice()
				require.NoError(t, err)
				access := "RW access update"
				if command == "cl.peek" {
					access = "RO access"
				}
				require.Len(t, flagged, len(keys))
				require.Equal(t, fmt.Sprintf("[%s [%s]]", keys[len(keys)-1], access), fmt.Sprint(flagged[len(keys)-1]))
			}
		}
	}
}

// TestFunnelsCommandsAreDescribed to servers and their clients.
func TestFunnelsCommandsAreDescribed(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	const funnel = "key capacity count period quantity"
	const funnels = funnel + " [" + funnel + " ...]"
	for command, c := range map[string]struct {
		flags  []string
		last   int
		syntax string
	}{
		"cl.reserve": {[]string{"write", "denyoom", "fast"}, -2, funnels + " [max_wait]"},
		"cl.peek":    {[]string{"readonly", "fast"}, -1, funnels},
		"cl.charge":  {[]string{"write", "denyoom", "fast"}, -1, funnels},
		"cl.refund":  {[]string{"write", "fast"}, -1, funnels},
	} {
		info := client.Command(ctx).Val()[command]
		require.NotNil(t, info, command)
		require.Equal(t, []int{1, c.last, 5}, []int{int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)}, command)
		flags := slices.DeleteFunc(slices.Clone(info.Flags), func(flag string) bool {
			return !slices.Contains([]string{"write", "readonly", "denyoom", "fast", "movablekeys", "admin", "blocking", "noscript"}, flag)
		})
		require.ElementsMatch(t, c.flags, flags, command)

		if !servertest.Since7(t) {
			continue // a module cannot tell the rest
		}
		require.EqualValues(t, -6, info.Arity, command)
		docs := client.Do(ctx, "command", "docs", command).Val().(map[any]any)[command].(map[any]any)
		require.NotEmpty(t, docs["summary"], command)
		require.Equal(t, "0.1.0", docs["since"], command)
		require.Contains(t, docs["complexity"], "O(N)", command)
		require.Equal(t, c.syntax, syntaxOf(docs["arguments"]), command)
	}
}

// syntaxOf writes arguments as servers document them.
func syntaxOf(arguments any) string {
	var words []string
	for _, argument := range arguments.([]any) {
		argument := argument.(map[any]any)
		word := argument["name"].(string)
		if argument["type"] == "block" {
			word = syntaxOf(argument["arguments"])
		}
		flags := fmt.Sprint(argument["flags"])
		if strings.Contains(flags, "multiple") {
			word += " [" + word + " ...]"
		}
		if strings.Contains(flags, "optional") {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// newUser logs in with permissions.
func newUser(t *testing.T, server *servertest.Server, name string, rules ...any) *redis.Client {
	t.Helper()
	words := append([]any{"acl", "setuser", name, "reset", "on", ">secret"}, rules...)
	require.NoError(t, server.Client(t).Do(context.Background(), words...).Err())
	return server.Client(t, func(options *redis.Options) { options.Username, options.Password = name, "secret" })
}

// TestFunnelsNeedPermission for every key, and CL.PEEK only to read it.
func TestFunnelsNeedPermission(t *testing.T) {
	server := servertest.StartModule(t)
	ctx := context.Background()
	all := []any{"+cl.reserve", "+cl.peek", "+cl.charge", "+cl.refund"}
	app := newUser(t, server, "app", append(all, "~user:*")...)
	for _, command := range funnelsCommands {
		require.NoError(t, app.Do(ctx, callOf(command)...).Err())
		for _, line := range []string{" admin:1 2 1 1 1", " admin:1 2 1 1 1 user:1 2 1 1 1", " user:1 2 1 1 1 admin:1 2 1 1 1"} {
			require.ErrorContains(t, app.Do(ctx, servertest.Words(command+line)...).Err(), "NOPERM", command+line)
		}
	}
	require.NoError(t, app.Do(ctx, servertest.Words("cl.reserve user:1 2 1 1 0 0")...).Err(), "max_wait is no key")
	other := newUser(t, server, "other", "~*", "+cl.throttle")
	for _, command := range funnelsCommands {
		require.ErrorContains(t, other.Do(ctx, callOf(command)...).Err(), "NOPERM", command)
	}

	if !servertest.Since7(t) {
		return // there, a permission for a key is one to read and to write it
	}
	for _, keys := range []struct {
		rule    string
		allowed []string
	}{{"%R~user:*", []string{"cl.peek"}}, {"%W~user:*", nil}, {"%RW~user:*", funnelsCommands}} {
		user := newUser(t, server, "reader", append(all, keys.rule)...)
		for _, command := range funnelsCommands {
			err := user.Do(ctx, callOf(command)...).Err()
			if slices.Contains(keys.allowed, command) {
				require.NoError(t, err, command+" with "+keys.rule)
			} else {
				require.ErrorContains(t, err, "NOPERM", command+" with "+keys.rule)
			}
		}
	}
}

// TestFunnelsACLCategories: the built-in ones, where a module can join them, and their
// own, where it can add one (Redis 7.4, Valkey 8).
func TestFunnelsACLCategories(t *testing.T) {
	server := servertest.StartModule(t)
	ctx := context.Background()
	admin := server.Client(t)
	known, err := admin.Do(ctx, "acl", "cat").StringSlice()
	require.NoError(t, err)
	writes, err := admin.Do(ctx, "acl", "cat", "write").StringSlice()
	require.NoError(t, err)
	if !slices.Contains(writes, "cl.throttle") {
		t.Skip("this server lets no module join a category")
	}
	for category, allowed := range map[string][]string{
		"write": {"cl.reserve", "cl.charge", "cl.refund"}, "read": {"cl.peek"}, "fast": funnelsCommands, "throttle": funnelsCommands,
	} {
		if !slices.Contains(known, category) {
			t.Logf("this server has no category %s", category)
			continue
		}
		user := newUser(t, server, category, "~*", "+@"+category)
		for _, command := range funnelsCommands {
			err := user.Do(ctx, callOf(command)...).Err()
			if slices.Contains(allowed, command) {
				require.NoError(t, err, command+" with @"+category)
			} else {
				require.ErrorContains(t, err, "NOPERM", command+" with @"+category)
			}
		}
	}
}

// TestFunnelsInScripts: what reads is free to call CL.PEEK, and nothing else.
func TestFunnelsInScripts(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	const script = `return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`
	arguments := func(command string) []any { return append([]any{command}, callOf(command)[2:]...) }
	keys := []string{"user:1"}
	for _, c := range []struct{ command, reply string }{
		{"cl.reserve", "0 0 [0 2 1 0 1000]"}, {"cl.charge", "0 0 [0 2 0 0 2000]"}, {"cl.peek", "1 1000 [1 2 0 1000 2000]"},
		{"cl.refund", "0 0 [0 2 1 0 1000]"},
	} {
		require.Equal(t, c.reply, servertest.ToFunnelsReply(t, client.Eval(ctx, script, keys, arguments(c.command)...)), c.command)
	}

	if !servertest.Since7(t) {
		return // it has neither EVAL_RO nor functions
	}
	const library = "#!lua name=funnels\n" +
		`local function call(keys, arguments) return redis.call(arguments[1], keys[1], unpack(arguments, 2)) end
		redis.register_function{function_name='any', callback=call}
		redis.register_function{function_name='reading', callback=call, flags={'no-writes'}}`
	require.NoError(t, client.FunctionLoad(ctx, library).Err())
	before := servertest.Dumps(t, client)
	for _, command := range funnelsCommands {
		calls := map[string]*redis.Cmd{
			"EVAL_RO":         client.EvalRO(ctx, script, keys, arguments(command)...),
			"FCALL_RO":        client.FCallRO(ctx, "reading", keys, arguments(command)...),
			"FCALL no-writes": client.FCall(ctx, "reading", keys, arguments(command)...),
		}
		for how, call := range calls {
			if command == "cl.peek" {
				require.Equal(t, "0 0 [0 2 1 0 1000]", servertest.ToFunnelsReply(t, call), how)
			} else {
				require.ErrorContains(t, call.Err(), "Write commands are not allowed from read-only scripts", how)
			}
		}
	}
	require.Equal(t, before, servertest.Dumps(t, client))
	require.Equal(t, "0 0 [0 2 0 0 2000]", servertest.ToFunnelsReply(t, client.FCall(ctx, "any", keys, arguments("cl.reserve")...)))
}

// TestFunnelsOnReplicas: CL.PEEK answers there, from scripts too, and writes nothing.
func TestFunnelsOnReplicas(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	replica := servertest.StartReplica(t, server, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	ctx := context.Background()
	for _, client := range []*redis.Client{client, replica} {
		servertest.ClockOf(client).Set(t, servertest.Epoch)
	}
	servertest.Funnels(t, client, "cl.charge user:1 2 1 1000 1 full 2 1 1 3")
	servertest.AwaitReplicas(t, client, replica)
	before := servertest.Dumps(t, replica)
	const want = "1 2 [1 2 0 2 3] [0 2 1 0 1000] [0 5 5 0 0]"
	const words = "full 2 1 1 1 user:1 2 1 1000 1 new 5 1 1 5"
	require.Equal(t, want, servertest.Funnels(t, replica, "cl.peek "+words))
	if servertest.Since7(t) {
		const script = `return redis.call('cl.peek', KEYS[1], 2, 1, 1, 1, KEYS[2], 2, 1, 1000, 1, KEYS[3], 5, 1, 1, 5)`
		require.Equal(t, want, servertest.ToFunnelsReply(t, replica.EvalRO(ctx, script, []string{"full", "user:1", "new"})))
	}
	for _, command := range []string{"cl.reserve", "cl.charge", "cl.refund"} {
		require.ErrorContains(t, replica.Do(ctx, callOf(command)...).Err(), "READONLY", command)
		require.ErrorContains(t, replica.Do(ctx, servertest.Words(command+" user:1 2 1 1 0")...).Err(), "READONLY", command)
	}
	require.Equal(t, before, servertest.Dumps(t, replica))
}

// TestFunnelsOfServersInTrouble: without memory, replicas or a disk to save to.
func TestFunnelsOfServersInTrouble(t *testing.T) {
	for _, trouble := range []struct {
		name    string
		refused []string
		begin   func(t *testing.T, server *servertest.Server, client *redis.Client)
	}{
		{"OOM", []string{"cl.reserve", "cl.charge"}, func(t *testing.T, _ *servertest.Server, client *redis.Client) {
			require.NoError(t, client.ConfigSet(context.Background(), "maxmemory", "1").Err())
		}},
		{"NOREPLICAS", []string{"cl.reserve", "cl.charge", "cl.refund"}, func(t *testing.T, _ *servertest.Server, client *redis.Client) {
			require.NoError(t, client.ConfigSet(context.Background(), "min-replicas-to-write", "1").Err())
		}},
		{"MISCONF", []string{"cl.reserve", "cl.charge", "cl.refund"}, func(t *testing.T, server *servertest.Server, client *redis.Client) {
			ctx := context.Background()
			require.NoError(t, os.Mkdir(filepath.Join(server.Dir, "dump.rdb"), 0o755))
			require.NoError(t, client.ConfigSet(ctx, "save", "3600 1000000").Err())
			// Else the server would not stop before it has saved.
			t.Cleanup(func() { client.ConfigSet(ctx, "save", "") })
			require.NoError(t, client.BgSave(ctx).Err())
			servertest.Eventually(t, "saving fails", func() bool {
				return strings.Contains(client.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			server := servertest.StartModule(t)
			client := server.Client(t)
			ctx := context.Background()
			servertest.Funnels(t, client, "cl.charge user:1 2 1 1000 1 user:2 2 1 1000 2")
			before := servertest.Dumps(t, client)
			trouble.begin(t, server, client)
			for _, command := range trouble.refused {
				require.ErrorContains(t, client.Do(ctx, callOf(command)...).Err(), trouble.name, command)
			}
			require.Equal(t, before, servertest.Dumps(t, client))
			require.Regexp(t, `^0 0 \[0 2 1 0 `, servertest.Funnels(t, client, "cl.peek user:1 2 1 1000 1"))
			if !slices.Contains(trouble.refused, "cl.refund") {
				require.Regexp(t, `^0 0 \[0 2 2 0 0\] \[0 2 1 0 `, servertest.Funnels(t, client, "cl.refund user:1 2 1 1000 1 user:2 2 1 1000 1"))
				require.EqualValues(t, 1, client.DBSize(ctx).Val())
			}
		})
	}
}

// TestFunnelsTouchOnlyWhatTheyWrite: of the keys of a call, WATCH and client-side caches
// learn of those that it writes, and of no others; the dirty counter counts them.
func TestFunnelsTouchOnlyWhatTheyWrite(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	for _, c := range []struct{ call, touches string }{
		{"cl.reserve one 3 1 1 1", "one"},
		{"cl.reserve one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two new"},
		{"cl.reserve one 3 1 1 1 two 3 1 1 0 new 3 1 1 0", "one"},
		{"cl.reserve one 3 1 1 3 9", "one"},
		{"cl.reserve one 3 1 1 3", ""},
		{"cl.reserve new 3 1 1 1 two 3 1 1 2", ""},
		{"cl.reserve two 3 1 1 2 one 3 1 1 1", ""},
		{"cl.reserve one 3 1 1 4 new 3 1 1 4 two 3 1 1 1", ""},
		{"cl.reserve one 3 1 1 0 two 3 1 1 0 new 3 1 1 0", ""},
		{"cl.reserve one 3 1 1 1 two x 1 1 1", ""},
		{"cl.peek one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", ""},
		{"cl.peek one 3 1 1 4", ""},
		{"cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1", "one two new"},
		{"cl.charge one 3 1 1 0 two 3 1 1 1", "two"},
		{"cl.charge one 3 1 1 1 two 1 1 9223372036 9", ""},
		{"cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two"},
		{"cl.refund one 3 1 1 0 two 3 1 1 2", "two"},
		{"cl.refund new 3 1 1 2", ""},
	} {
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Funnels(t, client, "cl.charge one 3 1 1 1 two 3 1 1 2")
		before := servertest.Dumps(t, client)
		watchers := map[string]*watcher{}
		for _, key := range []string{"one", "two", "new"} {
			watchers[key] = newWatcher(t, server, key)
		}
		dirty := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
		client.Do(ctx, servertest.Words(c.call)...)
		written := strings.Fields(c.touches)
		require.EqualValues(t, len(written), servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")-dirty, c.call)
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(written, key)
			require.Equal(t, touched, before[key] != after[key], "%s: the value of %s", c.call, key)
			watched, cached := watcher.saw(t)
			require.Equal(t, touched, watched, "%s: WATCH of %s", c.call, key)
			require.Equal(t, touched, cached, "%s: the cache of %s", c.call, key)
		}
	}
}

// A watcher watches a key and has it in its cache.
type watcher struct {
	wire *servertest.Wire
	key  string
}

func newWatcher(t *testing.T, server *servertest.Server, key string) *watcher {
	t.Helper()
	w := &watcher{server.Wire(t), key}
	for _, words := range [][]string{{"hello", "3"}, {"client", "tracking", "on"}, {"watch", key}, {"get", key}} {
		_, err := w.wire.Do(words...)
		require.NoError(t, err)
	}
	return w
}

// saw says whether the key was changed in the meantime: what EXEC and the cache know.
func (w *watcher) saw(t *testing.T) (watched, cached bool) {
	t.Helper()
	var reply any
	for _, word := range []string{"multi", "ping", "exec"} {
		var err error
		reply, err = w.wire.Do(word)
		require.NoError(t, err)
		for push, isPush := reply.(servertest.Push); isPush; push, isPush = reply.(servertest.Push) {
			require.Equal(t, servertest.Push{"invalidate", []any{w.key}}, push)
			cached = true
			reply, err = w.wire.Receive()
			require.NoError(t, err)
		}
	}
	return reply == nil, cached
}

// TestPeekIsCached: clients that cache what they read are told when it changes.
func TestPeekIsCached(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	wire := server.Wire(t)
	for _, words := range [][]string{{"hello", "3"}, {"client", "tracking", "on"},
		{"cl.peek", "one", "3", "1", "1000", "1", "two", "3", "1", "1000", "1"}} {
		_, err := wire.Do(words...)
		require.NoError(t, err)
	}
	for _, call := range []string{"cl.charge two 3 1 1000 1", "cl.reserve one 3 1 1000 1"} {
		servertest.Funnels(t, client, call)
		push, err := wire.Receive()
		require.NoError(t, err)
		require.Equal(t, servertest.Push{"invalidate", []any{strings.Fields(call)[1]}}, push)
	}
}

// TestFunnelsInTransactions: MULTI queues the calls like any other.
func TestFunnelsInTransactions(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	lines := []string{"cl.reserve a 2 1 1 1 b 2 1 1 2", "cl.reserve a 2 1 1 1 b 2 1 1 1", "cl.peek a 2 1 1 1",
		"cl.charge a 2 1 1 2", "cl.refund a 2 1 1 3", "cl.charge a 2 1 1 x"}
	commands, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		for _, line := range lines {
			pipeline.Do(ctx, servertest.Words(line)...)
		}
		return nil
	})
	require.ErrorContains(t, err, "ERR quantity must")
	for i, want := range []string{"0 0 [0 2 1 0 1] [0 2 0 0 2]", "1 1 [0 2 1 0 1] [1 2 0 1 2]", "0 0 [0 2 1 0 1]",
		"1 1 [1 2 0 1 3]", "0 0 [0 2 2 0 0]"} {
		require.Equal(t, want, servertest.ToFunnelsReply(t, commands[i].(*redis.Cmd)), lines[i])
	}
	require.Equal(t, "b=2s", stateOf(t, client))
}

// TestFunnelsKeyspaceEvents: a write has the events of the SET or DEL that replicas execute.
func TestFunnelsKeyspaceEvents(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	require.NoError(t, client.ConfigSet(ctx, "notify-keyspace-events", "KA").Err())
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)
	for _, c := range []struct {
		call   string
		events []string
	}{
		{"cl.reserve a 3 1 1 1 b 3 1 1 2", []string{"a set", "a expire", "b set", "b expire"}},
		{"cl.reserve a 3 1 1 3 9", []string{"a set", "a expire"}},
		{"cl.reserve a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.peek a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.charge a 3 1 1 0 b 3 1 1 1", []string{"b set", "b expire"}},
		{"cl.charge a 3 1 1 1 b 3 1 1 x", nil},
		{"cl.refund a 3 1 1 1 b 3 1 1 3 c 3 1 1 1", []string{"a set", "a expire", "b del"}},
		{"cl.refund b 3 1 1 3", nil},
	} {
		client.Do(ctx, servertest.Words(c.call)...)
		require.NoError(t, client.Set(ctx, "end", 1, 0).Err())
		var events []string
		for {
			message, err := subscription.ReceiveMessage(ctx)
			require.NoError(t, err)
			event := strings.TrimPrefix(message.Channel, "__keyspace@0__:") + " " + message.Payload
			if event == "end set" {
				break
			}
			if event != "a new" && event != "b new" && event != "end new" {
				events = append(events, event)
			}
		}
		require.Equal(t, c.events, events, c.call)
	}
}

// TestFunnelsAreCounted in INFO, by what became of the call.
func TestFunnelsAreCounted(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	outcomes := []string{"allowed", "limited", "peeked", "charged", "refunded", "errors"}
	counts := func() map[string]int64 {
		counts := map[string]int64{}
		for _, outcome := range outcomes {
			counts[outcome] = servertest.InfoField(t, client, "funnel", "funnel_"+outcome)
		}
		return counts
	}
	for _, c := range []struct{ call, outcome string }{
		{"cl.reserve k 2 1 1 2", "allowed"},
		{"cl.reserve k 2 1 1 1 5", "allowed"},
		{"cl.reserve j 2 1 1 1 i 2 1 1 1", "allowed"},
		{"cl.reserve k 2 1 1 1", "limited"},
		{"cl.reserve j 2 1 1 1 k 2 1 1 1", "limited"},
		{"cl.reserve k 2 1 1 3 5", "limited"},
		{"cl.reserve k 2 1 1 0", "peeked"}, // though it is overfull
		{"cl.reserve k 2 1 1 0 5", "peeked"},
		{"cl.reserve j 2 1 1 0 i 2 1 1 0", "peeked"},
		{"cl.peek k 2 1 1 1", "peeked"},
		{"cl.peek new 2 1 1 1", "peeked"},
		{"cl.peek new 2 1 1 3", "peeked"},
		{"cl.charge k 2 1 1 9", "charged"},
		{"cl.charge new 2 1 1 1", "charged"},
		{"cl.charge k 2 1 1 0", "peeked"},
		{"cl.refund k 2 1 1 1", "refunded"},
		{"cl.refund empty 2 1 1 1", "refunded"},
		{"cl.refund new 2 1 1 1", "refunded"},
		{"cl.refund k 2 1 1 0", "peeked"},
		{"cl.reserve k 2 1 1 x", "errors"},
		{"cl.peek k 2 1 1 1 k 2 1 1 1", "errors"},
		{"cl.charge k 2 1 0 1", "errors"},
		{"cl.refund k 0 1 1 1", "errors"},
	} {
		want := counts()
		want[c.outcome]++
		client.Do(ctx, servertest.Words(c.call)...)
		require.Equal(t, want, counts(), c.call)
	}
}
