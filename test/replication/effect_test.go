package replication_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestEffectsAreReplicated: replicas and the append-only file receive SET key TAT PXAT expiry
// or DEL key, as one transaction if a call, a transaction, a script or a function wrote
// several funnels, and nothing of a call that wrote none. Replicas have a clock of their own
// or no module, and a server without it reads the same from the file. TestEffects of
// test/command has all kinds of calls.
func TestEffectsAreReplicated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--hz", "100", "--appendonly", "yes", "--appendfsync", "always", "--repl-ping-replica-period", "3600"},
	})
	client := primary.Client(t)
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	replicas := []*redis.Client{
		servertest.StartReplica(t, primary, servertest.Options{Module: servertest.DebugModule(t)}).Client(t),
		servertest.StartReplica(t, primary, servertest.Options{}).Client(t),
	}
	servertest.ClockOf(replicas[0]).Set(t, servertest.Epoch.Add(-time.Hour))

	const script = `
		for _ = 1, 3 do redis.call('cl.throttle', KEYS[1], 2, 1, 1) end
		redis.call('cl.charge', KEYS[2], 3, 1, 1, 4, KEYS[3], 3, 1, 1, 1)
		return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	hash := client.ScriptLoad(ctx, script).Val()
	calls := []struct{ commands, replicated string }{ // TAT and expiry are milliseconds from the epoch
		{"cl.throttle a 2 1 1.000000001", "SET a 1000.000001 1001"},
		{"cl.throttle a 2 1 1", ""},
		{"cl.reserve a 9 1 1 1 b 3 1 1 2 c 3 1 1 3", "MULTI SET a 2000.000001 2001 SET b 2000 2000 SET c 3000 3000 EXEC"},
		{"cl.refund b 3 1 1 1 c 3 1 1 5", "MULTI SET b 1000 1000 DEL c EXEC"},
		{"cl.refund a 3 1 1 9", "DEL a"},
		{"multi\ncl.peek a 3 1 1 1\ncl.throttle a 2 1 1\ncl.charge a 3 1 1 1 b 3 1 1 1\nexec", "MULTI SET a 1000 1000 SET a 2000 2000 SET b 2000 2000 EXEC"},
		{"evalsha " + hash + " 3 c d e", "MULTI SET c 1000 1000 SET c 2000 2000 SET d 4000 4000 SET e 1000 1000 EXEC"},
	}
	if servertest.Since7(t) {
		require.NoError(t, client.FunctionLoad(ctx, "#!lua name=limits\nredis.register_function('take', function(KEYS)"+script+"\nend)").Err())
		calls = append(calls, struct{ commands, replicated string }{
			"fcall take 3 f g h", "MULTI SET f 1000 1000 SET f 2000 2000 SET g 4000 4000 SET h 1000 1000 EXEC",
		})
	}
	for _, c := range calls {
		logged, offset := len(servertest.ReadAppendOnlyFile(t, primary)), replicationOffset(t, client)
		_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for line := range strings.Lines(c.commands) {
				pipe.Do(ctx, servertest.Words(line)...)
			}
			return nil
		})
		var got []string
		for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, primary)[logged:]) {
			switch command := strings.ToUpper(words[0]); command {
			case "SELECT": // which some put inside, some before
			case "SET":
				require.Equal(t, "PXAT", words[3])
				got = append(got, command, words[1], sinceEpoch(t, words[2], time.Nanosecond), sinceEpoch(t, words[4], time.Millisecond))
			default:
				got = append(append(got, command), words[1:]...)
			}
		}
		want := strings.Fields(c.replicated)
		if !servertest.Since7(t) {
			want = slices.DeleteFunc(want, func(word string) bool { return word == "MULTI" || word == "EXEC" })
		}
		require.Equal(t, want, append([]string{}, got...), c.commands)
		require.Equal(t, c.replicated == "", offset == replicationOffset(t, client), c.commands)
	}

	want := servertest.Dumps(t, client)
	servertest.AwaitReplicas(t, client, replicas...)
	for _, replica := range replicas {
		require.Equal(t, want, servertest.Dumps(t, replica))
	}
	primary.Kill()
	primary.Reconfigure(func(options *servertest.Options) { options.Module = "" })
	primary.Restart(t)
	require.Equal(t, want, servertest.Dumps(t, primary.Client(t)), "a server without the module")
}

// sinceEpoch is how many milliseconds after the epoch an instant is, which is written in a
// unit.
func sinceEpoch(t *testing.T, instant string, unit time.Duration) string {
	t.Helper()
	number, err := strconv.ParseInt(instant, 10, 64)
	require.NoError(t, err)
	return fmt.Sprint(float64(number*int64(unit)-servertest.Epoch.UnixNano()) / 1e6)
}

// TestScriptOfMillionsOfCallsReplicates: until it is over, all that it has written waits
// to be sent, each SET with a reference to the shared word PXAT. Redis 8.6 counts 2^23
// references to a string at the most, and ends itself at one more.
func TestScriptOfMillionsOfCallsReplicates(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("takes a minute and some gigabytes: set FUNNEL_LONG")
	}
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t), Config: []string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--crash-memcheck-enabled", "no", // a server that crashes here may hang in it
	}})
	client := server.Client(t, func(options *redis.Options) { options.ReadTimeout = 5 * time.Minute })
	const calls = 8_450_000
	const script = `
		for _ = 1, tonumber(ARGV[1]) do redis.call('cl.throttle', KEYS[1], ARGV[1], '1', '800') end
		return 1`
	require.NoError(t, client.Eval(context.Background(), script, []string{"key"}, calls).Err())
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", calls, 1, 800)[0])
}
