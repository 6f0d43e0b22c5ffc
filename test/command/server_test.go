package command_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestInTransactions: MULTI queues the call like any other.
func TestInTransactions(t *testing.T) {
	client := servertest.StartClient(t)
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
	require.Equal(t, []int64{0, 0, 1}, servertest.LimitedOf(t, commands[:3]))
	require.ErrorContains(t, commands[3].Err(), "ERR capacity")
	require.NoError(t, commands[4].Err())
}

// TestInScripts; what clients.md shows runs in ../clients, as a script and as a function.
func TestInScripts(t *testing.T) {
	client := servertest.StartClient(t)
	const script = `
		local last
		for _ = 1, 3 do last = redis.call('cl.throttle', KEYS[1], 2, 1, 1000) end
		return last`
	want := servertest.Reply{1, 2, 0, 1000, 2000}
	require.Equal(t, want, servertest.ToReply(t, client.Eval(context.Background(), script, []string{"key"})))

	protected := `return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	message, err := client.Eval(context.Background(), protected, []string{"key"}).Text()
	require.NoError(t, err)
	require.Contains(t, message, "ERR capacity")
}

func TestBothProtocols(t *testing.T) {
	server := servertest.StartModule(t)
	for _, protocol := range []string{"2", "3"} {
		wire := server.Wire(t)
		wire.MustDo(t, "hello", protocol)
		require.Equal(t, []any{int64(0), int64(15), int64(14), int64(-1), int64(2)}, wire.MustDo(t, "cl.throttle", protocol, "15", "30", "60"))
		require.IsType(t, servertest.ErrorReply(""), wire.MustDo(t, "cl.throttle", protocol, "x", "30", "60"))
	}
}

// TestCommandIsDescribed to servers and their clients.
func TestCommandIsDescribed(t *testing.T) {
	client := servertest.StartClient(t)
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

// as connects as a user who has those permissions alone.
func as(t *testing.T, server *servertest.Server, name string, permissions ...any) *redis.Client {
	t.Helper()
	setUser := append([]any{"acl", "setuser", name, "reset", "on", ">secret"}, permissions...)
	require.NoError(t, server.Client(t).Do(context.Background(), setUser...).Err())
	return server.Client(t, func(options *redis.Options) { options.Username, options.Password = name, "secret" })
}

// TestUsersNeedPermission for the command and for the key.
func TestUsersNeedPermission(t *testing.T) {
	server := servertest.StartModule(t)
	app := as(t, server, "app", "+cl.throttle", "~user:*")
	servertest.Throttle(t, app, "user:1", 15, 30, 60)
	servertest.RequireError(t, app, "NOPERM", "admin:1", 15, 30, 60)
	servertest.RequireError(t, as(t, server, "other", "+get", "~*"), "NOPERM", "user:1", 15, 30, 60)
	if servertest.Since7(t) { // before, a permission for a key is one to read and to write it
		servertest.RequireError(t, as(t, server, "reader", "+cl.throttle", "%R~user:*"), "NOPERM", "user:1", 15, 30, 60)
	}
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
		servertest.Throttle(t, as(t, server, category, "~user:*", "+@"+category), "user:1", 15, 30, 60)
	}
}

// TestInfoCountsCalls by outcome; quantity 0 is a peek, whatever the reply.
func TestInfoCountsCalls(t *testing.T) {
	client := servertest.StartClient(t)
	require.NoError(t, client.RPush(context.Background(), "list", "a").Err())
	for _, call := range [][]any{
		{"key", 2, 1, 1000}, {"key", 2, 1, 1000}, {"key", 2, 1, 1000}, // 2 allowed, 1 limited
		{"key", 2, 1, 1000, 0}, {"another", 2, 1, 1000, 0}, {"key", 1, 1, 1000, 0}, {"key", 9, 1, 1000, 0},
		{"key", "x", 1, 1000}, {"key", 2, 1}, {"list", 2, 1, 1000},
	} {
		_ = client.Do(context.Background(), append([]any{"cl.throttle"}, call...)...)
	}
	for field, want := range map[string]int64{"allowed": 2, "limited": 1, "peeked": 4, "errors": 2} {
		require.Equal(t, want, servertest.InfoField(t, client, "funnel", "funnel_"+field), field)
	}
}
