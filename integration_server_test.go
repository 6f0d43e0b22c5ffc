package funnel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestInTransactions: MULTI queues the call like any other.
func TestInTransactions(t *testing.T) {
	client := startFunnel(t)
	ctx := context.Background()
	commands, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		for range 3 {
			pipeline.Do(ctx, "cl.throttle", "key", 2, 1, 1000)
		}
		pipeline.Do(ctx, "cl.throttle", "key", "x", 1, 1000)
		pipeline.Get(ctx, "key")
		return nil
	})
	require.ErrorContains(t, err, "ERR capacity")
	require.Equal(t, []int64{0, 0, 1}, limitedOf(t, commands[:3]))
	require.ErrorContains(t, commands[3].Err(), "ERR capacity")
	require.NoError(t, commands[4].Err())
}

func limitedOf(t testing.TB, commands []redis.Cmder) (limited []int64) {
	t.Helper()
	for _, command := range commands {
		limited = append(limited, toReply(t, command.(*redis.Cmd))[0])
	}
	return limited
}

func TestInPipelines(t *testing.T) {
	client := startFunnel(t)
	ctx := context.Background()
	commands, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for range 20 {
			pipeline.Do(ctx, "cl.throttle", "key", 15, 30, 60)
		}
		return nil
	})
	require.NoError(t, err)
	for i, limited := range limitedOf(t, commands) {
		require.Equal(t, i >= 15, limited == 1, "call %d", i+1)
	}
}

func TestInScripts(t *testing.T) {
	client := startFunnel(t)
	const script = `
		local last
		for _ = 1, 3 do last = redis.call('cl.throttle', KEYS[1], 2, 1, 1000) end
		return last`
	want := reply{1, 2, 0, 1000, 2000}
	require.Equal(t, want, toReply(t, client.Eval(context.Background(), script, []string{"key"})))

	err := client.Eval(context.Background(), `return redis.call('cl.throttle', KEYS[1], 'x', 1, 1)`, []string{"key"}).Err()
	require.ErrorContains(t, err, "ERR capacity")

	protected := `return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	message, err := client.Eval(context.Background(), protected, []string{"key"}).Text()
	require.NoError(t, err)
	require.Contains(t, message, "capacity")
}

func TestInFunctions(t *testing.T) {
	servertest.NeedSince7(t, "functions")
	client := startFunnel(t)
	ctx := context.Background()
	const library = `#!lua name=limits
		redis.register_function('pour', function(keys, arguments)
			return redis.call('cl.throttle', keys[1], arguments[1], 30, 60)
		end)`
	require.NoError(t, client.FunctionLoad(ctx, library).Err())
	require.Equal(t, reply{0, 15, 14, -1, 2}, toReply(t, client.FCall(ctx, "pour", []string{"key"}, 15)))
}

// TestScriptsReplicateTheEffect, also of several calls in one script.
func TestScriptsReplicateTheEffect(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	})
	client := server.Client(t)
	const script = `for i = 1, 3 do redis.call('cl.throttle', KEYS[1], 2, 1, 1000) end`
	require.NoError(t, ignoreNil(client.Eval(context.Background(), script, []string{"key"}).Err()))
	var words []string
	for _, command := range readAppendOnlyFile(t, server) {
		if word := strings.ToUpper(command[0]); word != "SELECT" { // which some put inside, some before
			words = append(words, word)
		}
	}
	require.Equal(t, []string{"MULTI", "SET", "SET", "EXEC"}, words)
}

func TestBothProtocols(t *testing.T) {
	server := startServer(t)
	for _, protocol := range []int{2, 3} {
		client := server.Client(t, func(options *redis.Options) { options.Protocol = protocol })
		key := fmt.Sprintf("protocol %d", protocol)
		require.Equal(t, reply{0, 15, 14, -1, 2}, throttle(t, client, key, 15, 30, 60))
		requireError(t, client, "ERR capacity", key, "x", 30, 60)
	}
}

// TestCommandIsDescribed to servers and their clients.
func TestCommandIsDescribed(t *testing.T) {
	client := startFunnel(t)
	ctx := context.Background()

	keys, err := client.Do(ctx, "command", "getkeys", "cl.throttle", "the key", 15, 30, 60, 1).StringSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"the key"}, keys)

	info := client.Command(ctx).Val()["cl.throttle"]
	require.NotNil(t, info)
	require.EqualValues(t, []int{1, 1, 1}, []int{int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)})
	for _, flag := range []string{"write", "denyoom", "fast"} {
		require.Contains(t, info.Flags, flag)
	}

	if !servertest.Since7(t) {
		return // a module cannot tell the rest
	}
	require.EqualValues(t, -5, info.Arity)
	flags, err := client.Do(ctx, "command", "getkeysandflags", "cl.throttle", "the key", 15, 30, 60).Slice()
	require.NoError(t, err)
	require.Equal(t, "[[the key [RW access update]]]", fmt.Sprint(flags))

	docs := fmt.Sprint(client.Do(ctx, "command", "docs", "cl.throttle").Val())
	for _, word := range []string{"summary", "since", "0.1.0", "O(1)", "capacity", "count", "period", "quantity", "optional"} {
		require.Contains(t, docs, word)
	}
}

// TestUsersNeedPermission for the command and for the key.
func TestUsersNeedPermission(t *testing.T) {
	server := startServer(t)
	ctx := context.Background()
	admin := server.Client(t)
	require.NoError(t, admin.Do(ctx, "acl", "setuser", "app", "on", ">secret", "+cl.throttle", "~user:*").Err())
	app := server.Client(t, func(options *redis.Options) {
		options.Username, options.Password = "app", "secret"
	})
	throttle(t, app, "user:1", 15, 30, 60)
	requireError(t, app, "NOPERM", "admin:1", 15, 30, 60)
	require.ErrorContains(t, app.Get(ctx, "user:1").Err(), "NOPERM")

	if !servertest.Since7(t) {
		return // there, a permission for a key is one to read and to write it
	}
	require.NoError(t, admin.Do(ctx, "acl", "setuser", "reader", "on", ">secret", "+cl.throttle", "%R~user:*").Err())
	reader := server.Client(t, func(options *redis.Options) {
		options.Username, options.Password = "reader", "secret"
	})
	requireError(t, reader, "NOPERM", "user:1", 15, 30, 60)
}

// TestACLCategories: where a module can add a category (Redis 7.4, Valkey 8), the
// command is in its own and in the built-in ones, also when the server has taken back
// a first load.
func TestACLCategories(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	ctx := context.Background()
	admin := server.Client(t)
	require.Error(t, admin.Do(ctx, "module", "loadex", servertest.Module(t), "config", "funnel.burst", "1").Err())
	require.NoError(t, admin.Do(ctx, "module", "load", servertest.Module(t)).Err())
	all, err := admin.Do(ctx, "acl", "cat").StringSlice()
	require.NoError(t, err)
	if !slices.Contains(all, "throttle") {
		t.Skip("this server has no categories of modules")
	}
	for _, category := range []string{"throttle", "write", "fast"} {
		rules := []any{"acl", "setuser", category, "reset", "on", ">secret", "~user:*", "+@" + category}
		require.NoError(t, admin.Do(ctx, rules...).Err())
		member := server.Client(t, func(options *redis.Options) {
			options.Username, options.Password = category, "secret"
		})
		throttle(t, member, "user:1", 15, 30, 60)
	}
}

// TestLoadArguments: what is not understood is not loaded, and the log says why.
func TestLoadArguments(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		complaint string // empty: loads
		compat    string
	}{
		{nil, "", "none"},
		{[]string{"compat", "none"}, "", "none"},
		{[]string{"compat", "redis-cell"}, "", "redis-cell"},
		{[]string{"COMPAT", "Redis-Cell"}, "", "redis-cell"},
		{[]string{"compat", "none", "compat", "none"}, "", "none"},
		{[]string{"compat", "redis-cell", "COMPAT", "redis-CELL"}, "", "redis-cell"},
		{[]string{"compat"}, "load argument 'compat' needs a value: 'none' or 'redis-cell'", ""},
		{[]string{"compat", "none", "compat"}, "load argument 'compat' needs a value: 'none' or 'redis-cell'", ""},
		{[]string{"compat", "none", "compat", "redis-cell"}, "load argument 'compat' is given twice, as 'none' and as 'redis-cell'", ""},
		{[]string{"compat", "redis-cell", "compat", "none"}, "load argument 'compat' is given twice, as 'none' and as 'redis-cell'", ""},
		{[]string{"compat", "dragonfly"}, "load argument 'compat' must be 'none' or 'redis-cell', not 'dragonfly'", ""},
		{[]string{"burst", "1"}, "unknown load argument 'burst'", ""},
		{[]string{"compat", "none", "more"}, "unknown load argument 'more'", ""},
	} {
		t.Run(strings.Join(c.arguments, " "), func(t *testing.T) {
			server, err := servertest.TryStart(t, servertest.Options{
				Module: servertest.Module(t), ModuleArguments: c.arguments,
			})
			if c.complaint != "" {
				require.Error(t, err)
				require.Contains(t, server.Log(), "<funnel> "+c.complaint)
				return
			}
			require.NoError(t, err)
			require.Regexp(t, `<funnel> funnel 0\.1\.0 \(.+\) loaded, compat `+c.compat, server.Log())
			client := server.Client(t)
			require.Contains(t, client.Info(context.Background(), "funnel").Val(), "funnel_compat:"+c.compat)
			require.Equal(t, map[string]string{"funnel.compat": c.compat},
				client.ConfigGet(context.Background(), "funnel.*").Val())
			require.Error(t, client.ConfigSet(context.Background(), "funnel.compat", "none").Err(), "it is fixed at load")
		})
	}
}

// TestConfigFileSetsCompat, as servers let their modules be configured. What
// contradicts the load argument is refused: one of the two would be ignored in silence.
func TestConfigFileSetsCompat(t *testing.T) {
	for _, c := range []struct {
		setting   string
		arguments []string
		limit     int64 // of a capacity of 15; 0 if it does not load
	}{
		{"redis-cell", nil, 16},
		{"none", nil, 15},
		{"redis-cell", []string{"compat", "redis-cell"}, 16},
		{"none", []string{"compat", "none"}, 15},
		{"redis-cell", []string{"compat", "none"}, 0},
		{"none", []string{"compat", "redis-cell"}, 0},
	} {
		t.Run(strings.Join(append(c.arguments, "and", c.setting), " "), func(t *testing.T) {
			server, err := servertest.TryStart(t, servertest.Options{
				Module: servertest.Module(t), ModuleArguments: c.arguments,
				Config: []string{"--save", "", "--funnel.compat", c.setting},
			})
			if c.limit == 0 {
				require.Error(t, err)
				require.Contains(t, server.Log(), "it contradicts the load argument 'compat': remove one of the two")
				return
			}
			require.NoError(t, err)
			client := server.Client(t)
			require.Equal(t, reply{0, c.limit, c.limit - 1, -1, 2}, throttle(t, client, "key", 15, 30, 60))
			require.Equal(t, c.setting, client.ConfigGet(context.Background(), "funnel.compat").Val()["funnel.compat"])
		})
	}
}

// TestLoadedTwice: the second one is refused, and the first goes on as it was.
func TestLoadedTwice(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t), ModuleArguments: []string{"compat", "redis-cell"},
	})
	client := server.Client(t)
	ctx := context.Background()
	throttle(t, client, "key", 15, 1, 1000)
	elsewhere := filepath.Join(t.TempDir(), "another.so")
	content, err := os.ReadFile(servertest.Module(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(elsewhere, content, 0o755))
	for tries, path := range []string{servertest.Module(t), elsewhere} {
		require.ErrorContains(t, client.Do(ctx, "module", "load", path, "compat", "none").Err(), "Error loading the extension")
		const reason = "funnel is not loaded: a module of that name is loaded already"
		require.Equal(t, tries+1, strings.Count(server.Log(), reason))
	}
	require.Equal(t, reply{0, 16, 14, -1, 2000}, throttle(t, client, "key", 15, 1, 1000))
	require.EqualValues(t, 2, infoField(t, client, "funnel", "funnel_allowed"))
	require.Contains(t, client.Info(ctx, "funnel").Val(), "funnel_compat:redis-cell")
}

// TestFileThatWasNotFinishedDoesNotLoad: what the Go linker wrote would start the Go
// runtime in the server, and has no way into Go.
func TestFileThatWasNotFinishedDoesNotLoad(t *testing.T) {
	if os.Getenv("GOARCH") != "" {
		t.Skip("built for this machine only")
	}
	unfinished := filepath.Join(t.TempDir(), "funnel.so")
	output, err := exec.Command("go", "build", "-buildmode=c-shared", "-o", unfinished, "./cmd/funnel").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Chmod(unfinished, 0o755))
	server, err := servertest.TryStart(t, servertest.Options{Module: unfinished})
	require.Error(t, err)
	if strings.Contains(server.Log(), "initial-exec TLS") {
		t.Skip("musl does not even map it")
	}
	require.Contains(t, server.Log(), "<funnel> funnel is not loaded: this file was not finished: funnel-finish has to see")
}

// TestInfoCountsCalls by outcome.
func TestInfoCountsCalls(t *testing.T) {
	client := startFunnel(t)
	throttle(t, client, "key", 2, 1, 1000)
	throttle(t, client, "key", 2, 1, 1000)
	throttle(t, client, "key", 2, 1, 1000)
	ctx := context.Background()
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	require.NoError(t, client.Set(ctx, "word", "abc", 0).Err())
	// Who asks for nothing has peeked, whatever the answer.
	throttle(t, client, "key", 2, 1, 1000, 0)
	throttle(t, client, "another", 2, 1, 1000, 0)
	require.EqualValues(t, 1, throttle(t, client, "key", 1, 1, 1000, 0)[0])
	requireError(t, client, "ERR", "key", "x", 1, 1000)
	requireError(t, client, "ERR", "word", 2, 1, 1000)
	requireError(t, client, "WRONGTYPE", "list", 2, 1, 1000)
	for field, want := range map[string]int64{
		"funnel_allowed": 2, "funnel_limited": 1, "funnel_peeked": 3, "funnel_errors": 3,
	} {
		require.Equal(t, want, infoField(t, client, "funnel", field), field)
	}
}
