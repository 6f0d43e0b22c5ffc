// Replicas and files hold the slots that the primary holds, and the key's expiry, whatever other
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

// TestSlotsAreTheSameEverywhere: on the primary, on a replica without the module, and on a server
// without it that reads the append-only file after kill -9. The clock of some histories is an hour
// late: the server takes what they write for expired, and deletes it in between.
func TestSlotsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	primary := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--zset-max-listpack-entries", "8"},
	})
	replica := servertest.StartReplica(t, primary, servertest.Options{}).Client(t)
	client := primary.Client(t, func(options *redis.Options) { options.PoolSize = 1 })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for number := range servertest.QuickOrLong(100, 1000) {
		history := slotsHistory{random, servertest.Epoch, fmt.Sprint("{", number, "}")}
		if random.IntN(10) == 0 {
			history.now = time.Now().Add(-time.Hour)
		}
		pipeline := client.Pipeline()
		servertest.ClockOf(client).Set(t, history.now)
		for range 60 {
			pipeline.Do(context.Background(), servertest.Words(history.command())...)
		}
		_, _ = pipeline.Exec(context.Background()) // some are WRONGTYPE, and fail alone
	}

	want := slotsHeld(t, client)
	require.Greater(t, len(want), 10)
	servertest.AwaitReplicas(t, client, replica)
	require.Equal(t, want, slotsHeld(t, replica), "the replica")
	stats, err := replica.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, effect := range []string{"zadd", "zrem", "zremrangebyrank", "pexpireat", "persist"} {
		require.Contains(t, stats, "cmdstat_"+effect+":", "the histories have that effect")
	}
	primary.Kill()
	primary.Reconfigure(func(options *servertest.Options) { options.Module = "" })
	primary.Restart(t)
	require.Equal(t, want, slotsHeld(t, primary.Client(t)), "the append-only file")
}

// slotsHeld are the members of all sets, with their scores and the key's expiry.
func slotsHeld(t *testing.T, client *redis.Client) map[string]string {
	held := map[string]string{}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		members, err := client.Do(t.Context(), "zrange", key, 0, -1, "withscores").Result()
		held[key] = fmt.Sprint(members, err, servertest.ExpiryOf(t, client, key))
	}
	return held
}

// A slotsHistory is of three keys with that tag.
type slotsHistory struct {
	*rand.Rand
	now time.Time
	tag string
}

func (h *slotsHistory) pick(words ...string) string { return words[h.IntN(len(words))] }

// command is one of ours in six of ten, else another's.
func (h *slotsHistory) command() string {
	key := h.tag + h.pick("a", "a", "b", "c")
	holder := h.pick("h1", "h2", "h3", "h4")
	switch dice := h.IntN(40); {
	case dice < 4:
		score := fmt.Sprint(h.now.UnixMilli()+h.Int64N(60_000)-30_000, h.pick("", ".5"))
		return fmt.Sprint("zadd ", key, " ", h.pick(score, score, "inf", "-inf", "0", "1e300", "9223372036854774784"), " ", h.pick(holder, "x", "y"))
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
	row := func(key string) string {
		return fmt.Sprint(" ", key, " ", h.IntN(4), " SLOTS ", h.pick("0.001", "0.0105", "5", "30", "30", "100"), " ", holder)
	}
	call := h.pick("cl.reserve", "cl.reserve", "cl.reserve", "cl.charge", "cl.refund", "cl.refund", "cl.peek") + row(key)
	if other := h.tag + "b"; other != key && h.IntN(3) == 0 {
		call += row(other) + h.pick("", " "+h.tag+"f 9 1 60 1")
	}
	return call
}
