// The complete script decides slots, beside funnels and alone, as the contract does: replies, sets
// and expiries, among members that other commands wrote, and with a clock that steps back.

package limiter_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// slotsHistory is a random history of one set and one funnel, by the script and by the contract.
type slotsHistory struct {
	t      *testing.T
	wire   *servertest.Wire
	random *rand.Rand
	hash   string
	now    int64 // nanoseconds

	scores map[string]float64
	expiry int64
	tat    contract.Value
	met    map[string]int
}

func TestScriptDecidesSlotsAsTheContract(t *testing.T) {
	wire := shared(t, limiter.PathScript).Wire(t)
	exchange(t, wire, []string{"select", fmt.Sprint(ownDatabase())})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &slotsHistory{t: t, wire: wire, random: rand.New(rand.NewPCG(seed, 0)), met: map[string]int{},
		hash: exchange(t, wire, []string{"script", "load", limiter.WithClock(limiter.Script())})[0].(string)}
	for range servertest.QuickOrLong(100, 10_000) {
		exchange(t, wire, []string{"flushdb"})
		h.now, h.scores, h.expiry, h.tat = servertest.Epoch.UnixNano(), nil, contract.NoExpiry, contract.Value{}
		for range 30 {
			h.step()
		}
	}
	for _, name := range append([]string{contract.Allowed, contract.Limited, contract.Never, contract.Peeked, contract.Charged,
		contract.Refunded}, contract.ErrorsOfSlots...) {
		require.Positive(t, h.met[name], name)
	}
}

func (h *slotsHistory) pick(words ...string) string { return words[h.random.IntN(len(words))] }

// step writes a member by another command, or has the script decide.
func (h *slotsHistory) step() {
	if h.random.IntN(3) > 0 {
		h.now += h.random.Int64N(20e9) / 1000 * 1000 // the server's clock tells microseconds
	}
	if h.random.IntN(20) == 0 {
		h.now -= 60e9
	}
	if h.random.IntN(6) == 0 {
		member := h.pick("a", "b", "foreign")
		score := h.pick("inf", "-inf", "0", "0.5", "9223372036854775808", fmt.Sprint(h.now/1e6), fmt.Sprintf("%d.25", h.now/1e6), fmt.Sprint(h.now/1e6+5000))
		exchange(h.t, h.wire, []string{"zadd", "slots", score, member})
		if h.scores = maps.Clone(h.scores); h.scores == nil {
			h.scores = map[string]float64{}
		}
		h.scores[member], _ = strconv.ParseFloat(score, 64)
		return
	}
	command := h.pick("reserve", "reserve", "reserve", "peek", "charge", "refund")
	row := []string{h.pick("0", "1", "2", "3", "9223372036854775807", "x"), h.pick("SLOTS", "slots"),
		h.pick("30", "10", "0.001", "9223372036.854775807", "0"), h.pick("a", "b", "c", "d", "e", "")}
	for i, odd := range []string{"x", "", "0", ""} { // rarely
		if row[i] == odd && h.random.IntN(5) > 0 {
			row[i] = []string{"2", "SLOTS", "30", "a"}[i]
		}
	}
	keys, words := []string{"slots"}, row
	if h.random.IntN(2) == 0 {
		keys, words = append(keys, "funnel"), append(words[:4:4], "5", "1", "10", h.pick("0", "1", "2"))
	}
	if command != "peek" && command != "charge" && h.random.IntN(20) == 0 {
		words = append(words, "7")
	}
	h.decide(command, keys, words)
}

// decide compares a call: its reply, and then the keys.
func (h *slotsHistory) decide(command string, keys, words []string) {
	call := []string{"cl." + command}
	for i, key := range keys {
		call = append(append(call, key), words[4*i:4*i+4]...)
	}
	call = append(call, words[4*len(keys):]...)
	outcome := contract.Call(contract.Default, call, h.now, func(key string) contract.Value {
		switch {
		case key == "funnel":
			return h.tat
		case len(h.scores) == 0:
			return contract.Value{}
		}
		return contract.Value{Type: "zset", Scores: h.scores}
	})
	h.met[outcome.Name]++
	for _, write := range outcome.Writes {
		if write.Key == "slots" {
			h.scores, h.expiry = write.Left, write.Expiry
		} else if h.tat = (contract.Value{}); write.Value != "" {
			h.tat = contract.Value{Type: "string", Text: write.Value}
		}
	}

	got := exchange(h.t, h.wire, scriptCall{now: h.now}.evalsha(h.hash, keys, append([]string{command}, words...)...))[0]
	if text, is := got.(servertest.ErrorReply); is || outcome.Err != "" {
		require.NotEmpty(h.t, outcome.Err, "%v: %v", call, got)
		require.True(h.t, strings.HasPrefix(string(text), string(outcome.Err)), "%v: %v, want %v", call, got, outcome.Err)
		return
	}
	require.Equal(h.t, ofScript(outcome.Reply), got, "%v at %d of %v", call, h.now, h.scores)
	h.requireSet(call)
}

// requireSet compares the set and its expiry.
func (h *slotsHistory) requireSet(call []string) {
	replies := exchange(h.t, h.wire, []string{"zrange", "slots", "0", "-1", "withscores"}, servertest.AskExpiry(h.t, "slots"))
	scores, members := map[string]float64{}, replies[0].([]any)
	for i := 0; i < len(members); i += 2 {
		scores[members[i].(string)], _ = strconv.ParseFloat(members[i+1].(string), 64)
	}
	want, expiry := h.scores, h.expiry
	if len(want) == 0 {
		want, expiry, h.expiry = map[string]float64{}, -2, contract.NoExpiry
	}
	require.Equal(h.t, want, scores, "%v", call)
	require.Equal(h.t, expiry, replies[1], "%v", call)
}
