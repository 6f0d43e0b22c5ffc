package replication_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// What CL.RESERVE, CL.CHARGE and CL.REFUND send to replicas and the AOF. CL.PEEK sends
// nothing.

// TestFunnelsOfOneCallAreOneTransaction of SET with PXAT and DEL, in the AOF.
func TestFunnelsOfOneCallAreOneTransaction(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	set := func(key string, tat, expiry time.Duration) []string {
		return []string{"SET", key, fmt.Sprint(servertest.Epoch.Add(tat).UnixNano()),
			"PXAT", fmt.Sprint(servertest.Epoch.Add(expiry).UnixMilli())}
	}
	type commands = [][]string
	multi, exec := []string{"MULTI"}, []string{"EXEC"}
	var want commands
	for i, c := range []struct {
		call   string
		writes commands
	}{
		{"cl.reserve a 3 1 1.000000001 1", commands{set("a", time.Second+1, time.Second+time.Millisecond)}},
		{"cl.reserve a 3 1 1 1 b 3 1 1 2 c 3 1 1 3", commands{multi, set("a", 2*time.Second+1, 2*time.Second+time.Millisecond),
			set("b", 2*time.Second, 2*time.Second), set("c", 3*time.Second, 3*time.Second), exec}},
		{"cl.reserve b 3 1 1 2 9", commands{set("b", 4*time.Second, 4*time.Second)}},
		{"cl.charge b 3 1 1 3 a 3 1 1 0 c 3 1 1 1", commands{multi, set("b", 7*time.Second, 7*time.Second),
			set("c", 4*time.Second, 4*time.Second), exec}},
		{"cl.refund b 3 1 1 6 c 3 1 1 5", commands{multi, set("b", time.Second, time.Second), {"DEL", "c"}, exec}},
		{"cl.refund c 3 1 1 1 b 3 1 1 1 a 3 1 1 9", commands{multi, {"DEL", "b"}, {"DEL", "a"}, exec}},
		{"cl.charge a 3 1 1 1 b 3 1 1 4", commands{multi, set("a", time.Second, time.Second), set("b", 4*time.Second, 4*time.Second), exec}},
		{"cl.refund a 3 1 1 1", commands{{"DEL", "a"}}},

		{"cl.reserve a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.reserve a 3 1 1 4", nil},
		{"cl.reserve a 3 1 1 0 b 3 1 1 0 0", nil},
		{"cl.peek a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.charge a 3 1 1 0 b 3 1 1 0", nil},
		{"cl.refund a 3 1 1 1 b 3 1 1 0", nil},
		{"cl.charge a 3 1 1 1 b 1 1 9223372036 9", nil},
		{"cl.charge a 3 1 1 1 b 1 1 9223372036 1", nil},
	} {
		mark := fmt.Sprint("after ", i)
		client.Do(ctx, servertest.Words(c.call)...)
		require.NoError(t, client.Set(ctx, mark, 1, 0).Err())
		if !servertest.Since7(t) { // it puts all that a module sends into a transaction
			c.writes = servertest.WithoutTransactions(t, c.writes)
		}
		want = append(append(want, c.writes...), []string{"set", mark, "1"})
	}
	want = append(commands{{"SELECT", "0"}}, want...)
	got := servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server))
	require.Equal(t, want, withSelectFirst(got))

	before := servertest.Dumps(t, client)
	server.Kill()
	server.Reconfigure(func(options *servertest.Options) { options.Module = "" })
	server.Restart(t)
	require.Equal(t, before, servertest.Dumps(t, server.Client(t)), "a server without the module")
}

// withSelectFirst moves SELECT, which some servers put inside a transaction, before it.
func withSelectFirst(commands [][]string) [][]string {
	if len(commands) > 1 && commands[0][0] == "MULTI" && commands[1][0] == "SELECT" {
		commands[0], commands[1] = commands[1], commands[0]
	}
	return commands
}

// TestFunnelsReachReplicasAsOneTransaction, also from scripts and transactions.
func TestFunnelsReachReplicasAsOneTransaction(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	stream := followReplication(t, server)

	const both = "a 9 1 1 1 b 9 1 1 1"
	script := `return redis.call('cl.charge', KEYS[1], 9, 1, 1, 1, KEYS[2], 9, 1, 1, 1)`
	for how, call := range map[string]func() error{
		"plain":  func() error { return client.Do(ctx, servertest.Words("cl.reserve "+both)...).Err() },
		"script": func() error { return client.Eval(ctx, script, []string{"a", "b"}).Err() },
		"transaction": func() error {
			_, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
				pipeline.Do(ctx, servertest.Words("cl.peek "+both)...)
				pipeline.Do(ctx, servertest.Words("cl.charge "+both)...)
				return nil
			})
			return err
		},
	} {
		require.NoError(t, call(), how)
		require.Equal(t, "multi set a set b exec", stream.until(t, client, "mark"), how)
	}
	require.NoError(t, client.Do(ctx, servertest.Words("cl.refund a 9 1 1 9 b 9 1 1 9")...).Err())
	require.Equal(t, "multi del a del b exec", stream.until(t, client, "mark"))
}

// A stream is what a server sends to a replica.
type stream struct{ wire *servertest.Wire }

// followReplication poses as a replica that has everything so far.
func followReplication(t *testing.T, server *servertest.Server) stream {
	t.Helper()
	client := server.Client(t)
	ctx := context.Background()
	require.NoError(t, client.ConfigSet(ctx, "repl-ping-replica-period", "3600").Err())
	// A replica makes the server keep a backlog, from which another one can go on.
	servertest.StartReplica(t, server, servertest.Options{})
	info := client.InfoMap(ctx, "replication").Val()["Replication"]
	offset, err := strconv.Atoi(info["master_repl_offset"])
	require.NoError(t, err)
	wire := server.Wire(t)
	for _, words := range [][]string{{"replconf", "capa", "psync2"}, {"psync", info["master_replid"], strconv.Itoa(offset + 1)}} {
		reply, err := wire.Do(words...)
		require.NoError(t, err)
		require.Regexp(t, "OK|CONTINUE", reply)
	}
	return stream{wire}
}

// until marks where the stream is now, and returns what came before: the commands, each
// with its first key.
func (s stream) until(t *testing.T, client *redis.Client, mark string) string {
	t.Helper()
	require.NoError(t, client.Publish(context.Background(), mark, mark).Err())
	var came []string
	for {
		value, err := s.wire.Receive()
		require.NoError(t, err)
		words, isCommand := value.([]any)
		require.True(t, isCommand, "%v", value)
		switch name := strings.ToLower(words[0].(string)); name {
		case "publish":
			return strings.Join(came, " ")
		case "select", "ping", "replconf":
		case "multi", "exec":
			came = append(came, name)
		default:
			came = append(came, name, words[1].(string))
		}
	}
}

// TestFunnelsAreTheSameEverywhere: on a replica, whatever its clock says, after a restart
// from AOF or RDB, and on servers without the module.
func TestFunnelsAreTheSameEverywhere(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "3600 1000000", "--appendonly", "yes", "--appendfsync", "always"},
	})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	replicas := []*redis.Client{
		servertest.StartReplica(t, server, servertest.Options{Module: servertest.DebugModule(t)}).Client(t),
		servertest.StartReplica(t, server, servertest.Options{}).Client(t),
	}
	servertest.ClockOf(replicas[0]).Set(t, servertest.Epoch.Add(-time.Hour))
	for i := range 50 {
		key := func(n int) string { return fmt.Sprintf("key:%d", (i*7+n)%20) }
		servertest.Funnels(t, client, fmt.Sprintf("cl.reserve %s 9 7 1 2 %s 9 1 0.000000123 3", key(0), key(1)))
		servertest.Funnels(t, client, fmt.Sprintf("cl.reserve %s 9 7 1 5 60", key(2)))
		servertest.Funnels(t, client, fmt.Sprintf("cl.charge %s 9 7 1 1 %s 9 7 1.1 20", key(3), key(4)))
		servertest.Funnels(t, client, fmt.Sprintf("cl.refund %s 9 7 1.1 11 %s 9 7 1 2 %s 9 7 1 100", key(4), key(5), key(6)))
		servertest.Funnels(t, client, fmt.Sprintf("cl.peek %s 9 7 1 1", key(0)))
	}
	want := servertest.Dumps(t, client)
	require.Greater(t, len(want), 5)
	require.Less(t, len(want), 20, "some were deleted")
	servertest.AwaitReplicas(t, client, replicas...)
	for _, replica := range replicas {
		require.Equal(t, want, servertest.Dumps(t, replica))
	}
	require.Equal(t, want, servertest.Dumps(t, restarted(t, server)), "from the AOF")

	require.NoError(t, server.Client(t).Save(ctx).Err())
	server.Reconfigure(func(options *servertest.Options) { options.Config = []string{"--appendonly", "no"} })
	require.Equal(t, want, servertest.Dumps(t, restarted(t, server)), "from the RDB file")
}

func restarted(t *testing.T, server *servertest.Server) *redis.Client {
	t.Helper()
	server.Kill()
	server.Restart(t)
	return server.Client(t)
}
