// Replicas and files hold the same slots and quotas as the primary, and the keys' expiry, even if other
// commands have written among them.

package replication_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestRowsAreTheSameEverywhere compares the primary with a replica without the module, and with a
// server without the module that reads the append-only file after kill -9. It runs histories of
// random commands, each on keys of its own. In some histories the module's clock is an hour late: the
// server takes what the module writes for expired, and deletes it.
func TestRowsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	primary := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "no", "--zset-max-listpack-entries", "8"))
	replica := servertest.StartReplica(t, primary, servertest.Options{}).Client(t)
	client := primary.Client(t, func(options *redis.Options) { options.PoolSize = 1 })
	random := rand.New(rand.NewPCG(servertest.Seed(t), 0))
	var histories []*history
	for number := range servertest.QuickOrLong(100, 1000) {
		one := &history{Rand: random, now: servertest.Epoch, tag: fmt.Sprint("{", number, "}")}
		if random.IntN(10) == 0 {
			one.now = time.Now().Add(-time.Hour)
		}
		one.run(t, client)
		histories = append(histories, one)
	}

	want := heldByKey(t, client)
	require.Greater(t, len(want), 10)
	servertest.AwaitReplicas(t, client, replica)
	requireHeld(t, histories, want, heldByKey(t, replica), "the replica")
	stats, err := replica.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, effect := range []string{"set", "del", "zadd", "zrem", "zremrangebyrank", "pexpireat", "persist"} {
		require.Contains(t, stats, "cmdstat_"+effect+":", "the histories have that effect")
	}
	primary.Kill()
	primary.Reconfigure(func(options *servertest.Options) { options.Module = "" })
	primary.Restart(t)
	requireHeld(t, histories, want, heldByKey(t, primary.Client(t)), "the server that read the append-only file")
}

// heldByKey returns what each key of a server holds: members and scores, or a string, and the key's expiry.
func heldByKey(t *testing.T, client *redis.Client) map[string]string {
	held := map[string]string{}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		value, err := client.Do(t.Context(), "zrange", key, 0, -1, "withscores").Result()
		if err != nil {
			value = client.Get(t.Context(), key).String()
		}
		held[key] = fmt.Sprint(value, servertest.ExpiryOf(t, client, key))
	}
	return held
}

// requireHeld requires that a server holds what the primary holds. For the first key that differs, it
// prints the history of that key.
func requireHeld(t *testing.T, histories []*history, want, got map[string]string, server string) {
	t.Helper()
	for _, one := range histories {
		for _, name := range []string{"a", "b", "c", "f", "q"} {
			key := one.tag + name
			if want[key] != got[key] {
				t.Fatalf("%s holds under %s\n%q\nand the primary\n%q\nafter these commands:\n%s",
					server, key, got[key], want[key], strings.Join(one.commands, "\n"))
			}
		}
	}
	require.Equal(t, want, got, server)
}

// A history is a history of random commands on keys that begin with its tag: slots under a, b and
// c, a funnel under f, and a quota under q.
type history struct {
	*rand.Rand
	now      time.Time // by the module's clock
	tag      string
	commands []string // as they were sent, shortened
}

// run sends 60 commands. Some of them fail, as with WRONGTYPE.
func (h *history) run(t *testing.T, client *redis.Client) {
	pipeline := client.Pipeline()
	servertest.ClockOf(client).Set(t, h.now)
	for range 60 {
		command := h.command()
		h.commands = append(h.commands, fmt.Sprintf("%.200s", command))
		pipeline.Do(context.Background(), servertest.Words(command)...)
	}
	_, _ = pipeline.Exec(context.Background()) // an error is of its command alone
}

func (h *history) pick(words ...string) string { return words[h.IntN(len(words))] }

// command returns a random command. About two of three are the module's.
func (h *history) command() string {
	key := h.tag + h.pick("a", "a", "b", "c", "q")
	holder := h.pick("h1", "h2", "h3", "h4")
	switch dice := h.IntN(40); {
	case dice < 4:
		score := fmt.Sprint(h.now.UnixMilli()+h.Int64N(60_000)-30_000, h.pick("", ".5"))
		score = h.pick(score, score, "inf", "-inf", "0", "1e300", "9223372036854774784")
		return fmt.Sprint("zadd ", key, " ", score, " ", h.pick(holder, "x", "y"))
	case dice < 6:
		return fmt.Sprint("zrem ", key, " ", h.pick(holder, "x", "y"))
	case dice == 6:
		var ended strings.Builder // more than one call removes
		for i := range 1100 {
			fmt.Fprintf(&ended, " %d ended:%d", i/2, i)
		}
		return "zadd " + key + h.pick(ended.String(), " 1 ended:1 2 ended:2")
	case dice == 7:
		return h.pick("persist ", "del ", "pexpireat ", "set ") + key + h.pick("", " 4102444900000")
	case dice < 14:
		step, _ := time.ParseDuration(h.pick("1ns", "0.5ms", "1ms", "12.3456789s", "40s", "-3s"))
		h.now = h.now.Add(step)
		return fmt.Sprint("funnel.debug clock ", h.now.UnixNano())
	}
	ahead, _ := time.ParseDuration(h.pick("0.3ms", "1ms", "20s", "20s", "1h"))
	end := h.now.Truncate(20 * time.Second).Add(ahead)
	quota := fmt.Sprintf(" %sq 5 UNTIL %d.%09d %d", h.tag, end.Unix(), end.Nanosecond(), h.IntN(4))
	row := func(key string) string {
		if key == h.tag+"q" {
			return quota
		}
		return fmt.Sprint(" ", key, " ", h.IntN(4), " SLOTS ", h.pick("0.001", "0.0105", "5", "30", "30", "100"), " ", holder)
	}
	call := h.pick("cl.reserve", "cl.reserve", "cl.reserve", "cl.charge", "cl.refund", "cl.refund", "cl.peek") + row(key)
	if other := h.tag + "b"; other != key && h.IntN(3) == 0 {
		call += row(other) + h.pick("", quota, " "+h.tag+"f 9 1 60 1")
	}
	return call
}
