// A server keeps a small sorted set as a list, and a larger one in another form: up to Valkey 9.1 a
// skip list beside a table, and from Valkey 9.2 on a tree. The module must not notice.

package model_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestSlotsInEachForm: random calls of up to some hundred holders get the same replies, and leave
// the same set, on three servers: the first keeps every set as a list, the second never does, and
// the third changes the form at 128 members, as servers do by default.
func TestSlotsInEachForm(t *testing.T) {
	const limit, ttls, calls = 200, 100, 1200
	clients := map[string]servertest.Commander{}
	clocks := map[string]servertest.Clock{}
	for form, most := range map[string]string{"a list": "1000000", "no list": "0", "both": "128"} {
		config := []string{"--save", "", "--zset-max-ziplist-entries", most}
		client := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t), Config: config}).Client(t)
		clients[form] = client
		clocks[form] = servertest.ClockOf(client)
	}
	random := rand.New(rand.NewPCG(servertest.Seed(t), 0))
	now, largest, encodings := servertest.Epoch, 0, map[string]bool{}
	for i := range calls {
		now = now.Add(time.Duration(random.IntN(50)) * time.Millisecond)
		if i%400 == 399 {
			now = now.Add(ttls / 2 * time.Second) // about half of the slots end
		}
		for _, clock := range clocks {
			clock.Set(t, now)
		}
		command := []string{"reserve", "reserve", "reserve", "charge", "peek", "refund"}[random.IntN(6)]
		call := fmt.Sprintf("cl.%s k %d SLOTS %d h%d", command,
			random.IntN(2*limit), 1+random.IntN(ttls), random.IntN(2*limit))
		states := map[string][4]string{}
		for form, client := range clients {
			states[form] = [4]string{
				servertest.Try(client, call),
				servertest.Try(client, "zrange k 0 -1 withscores"),
				fmt.Sprint(servertest.ExpiryOf(t, client, "k")),
				servertest.Try(client, "zcard k"),
			}
			if states[form][3] != "0" {
				encodings[form+" as "+servertest.Try(client, "object encoding k")] = true
			}
		}
		require.Equal(t, states["a list"], states["no list"], "the reply, the set, the expiry and the length after %s", call)
		require.Equal(t, states["a list"], states["both"], "the reply, the set, the expiry and the length after %s", call)
		members, err := strconv.Atoi(states["both"][3])
		require.NoError(t, err)
		largest = max(largest, members)
	}
	t.Logf("up to %d members: %q", largest, slices.Sorted(maps.Keys(encodings)))
	require.Greater(t, largest, 128)
	require.Len(t, encodings, 4, "both forms, each on two servers")
}
