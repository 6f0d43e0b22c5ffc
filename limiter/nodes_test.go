// Calls whose rows are on several nodes of a cluster are decided as on one node: all or nothing.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A spread has keys on three nodes: of slots, of a funnel, and of a quota and another funnel.
type spread struct {
	*servertest.Cluster
	direct                     *redis.ClusterClient
	slots, funnel, quota, also string
}

// useKeys chooses keys that no other test has used. The order of the hash tags is quota, slots,
// funnel.
func (s *spread) useKeys(t *testing.T, name string) {
	tagOf := func(first string, node *servertest.ClusterNode) string {
		for i := 0; ; i++ {
			tag := fmt.Sprint("{", first, name, i, "}")
			if s.Owner(s.Slot(t, tag)) == node {
				return tag
			}
		}
	}
	quotas := tagOf("a", s.Primaries[2])
	s.quota, s.also = quotas+"quota", quotas+"also"
	s.slots, s.funnel = tagOf("b", s.Primaries[0])+"slots", tagOf("c", s.Primaries[1])+"funnel"
}

// states are what the nodes store under the keys, and when that expires.
func (s *spread) states(t *testing.T) (states []string) {
	ctx := context.Background()
	for _, key := range []string{s.slots, s.funnel, s.quota, s.also} {
		dump, err := s.direct.Dump(ctx, key).Result()
		require.True(t, err == nil || err == redis.Nil, err)
		states = append(states, fmt.Sprintf("%s: %q until %v", key, dump, s.direct.Do(ctx, "pexpiretime", key).Val()))
	}
	return states
}

// requests are for tokens of the two funnels and the quota.
func (s *spread) requests(funnel, quota, also int) []limiter.Request {
	return []limiter.Request{{s.funnel, fifteenPerDay, funnel}, {s.quota, limiter.Until(10, nextYear), quota},
		{s.also, fifteenPerDay, also}}
}

var nextYear = time.Now().AddDate(1, 0, 0)

// A gated client counts the commands on each key that it sends. A gate decides when a command is
// sent, and whether.
type gated struct {
	*redis.ClusterClient
	gate func(command string, send func() error) error

	mutex      sync.Mutex
	sent       []string
	repeatable int // go-redis repeats a repeatable command after a lost answer
}

func (c *gated) Process(ctx context.Context, command redis.Cmder) error {
	words := fmt.Sprintln(command.Args()...)
	send := func() error {
		c.mutex.Lock()
		c.sent = append(c.sent, words)
		if !command.NoRetry() {
			c.repeatable++
		}
		c.mutex.Unlock()
		return c.ClusterClient.Process(ctx, command)
	}
	if c.gate == nil {
		return send()
	}
	return c.gate(words, send)
}

// forget forgets the commands that were sent so far.
func (c *gated) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sent, c.repeatable = nil, 0
}

// count returns how many commands on a key were sent that have a word, or any.
func (c *gated) count(key, word string) (count int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, command := range c.sent {
		if strings.Contains(command, key) && strings.Contains(command, word) {
			count++
		}
	}
	return count
}

// perNode bounds how many commands one call sends to one node: it asks, is refused, gives back two
// rows, and asks again in order; and then twice it looks, asks, and gives back.
const perNode = 1 + 2 + 1 + 2 + 2*(1+1+2)

func TestSeveralNodes(t *testing.T) {
	t.Parallel()
	if !servertest.Since7(t) {
		t.Skip("PEXPIRETIME came with Redis 7")
	}
	options := servertest.Options{Module: servertest.Module(t)}
	s := &spread{Cluster: servertest.StartCluster(t, 3, 5*time.Second, options)}
	s.direct = s.Client(t)
	require.NoError(t, s.direct.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.ScriptLoad(ctx, limiter.Script()).Err() // which has the word refund
	}))
	for _, source := range []limiter.Source{limiter.FromModule, limiter.FromScript} {
		for name, test := range map[string]func(*testing.T, *spread, limiter.Option){
			"steps": testStepsOnSeveralNodes, "peek": testPeekAtSeveralNodes, "overfull": testNoTokensOfAnOverfullFunnel,
			"wrong": testWrongCallChangesNothing, "ended": testEndedQuota, "failure": testOneNodeFails,
			"contest": testHeldForAMoment,
		} {
			t.Run(name+" by "+string(source), func(t *testing.T) {
				s.useKeys(t, name+string(source))
				test(t, s, limiter.WithSource(source))
			})
		}
	}
}

// describe says of each row whether it limits, how much was taken, and what remains.
func describe(results ...limiter.Result) string {
	var rows []string
	for _, result := range results {
		word := "ok"
		if result.Limited() {
			word = "limited"
		}
		rows = append(rows, fmt.Sprint(word, " ", result.Allowed, " ", result.Remaining))
	}
	return strings.Join(rows, ", ")
}

func testStepsOnSeveralNodes(t *testing.T, s *spread, source limiter.Option) {
	recorded, client := &recorder{}, &gated{ClusterClient: s.direct}
	learns := clientFunc(client.Process) // nothing says that it is a client of a cluster
	hook := limiter.WithHook(recorded.hook)
	l, another := limiter.New(client, source, hook), limiter.New(client, source, hook)
	learner := limiter.New(learns, source, hook)
	require.False(t, tryAcquire(t, l, s.slots, twoFor1h, s.requests(0, 0, 0)...).Limited(), "each node has the scripts")
	require.NoError(t, s.direct.Del(t.Context(), s.slots).Err())
	for _, step := range []struct {
		name                string
		by                  *limiter.Limiter
		max                 int // slots
		funnel, quota, also int // tokens
		want                string
		asks                string // the only key that the call asks for, if it asks for one
	}{
		{name: "more than the capacity", by: l, max: 2, funnel: 16, quota: 1, also: 1,
			want: "ok 0 2, limited 0 15, ok 0 10, ok 0 15", asks: s.funnel}, // the others are peeked at
		{name: "all fits", by: l, max: 2, funnel: 5, quota: 3, want: "ok 1 1, ok 5 10, ok 3 7, ok 0 15"},
		{name: "too many for the funnel", by: l, max: 2, funnel: 11, quota: 3, also: 1,
			want: "ok 0 1, limited 0 10, ok 0 7, ok 0 15"},
		{name: "too many for the quota", by: l, max: 2, funnel: 1, quota: 8, also: 1,
			want: "ok 0 1, ok 0 10, limited 0 7, ok 0 15"},
		{name: "too few slots", by: l, max: 1, funnel: 1, quota: 1, also: 1, want: "limited 0 0, ok 0 10, ok 0 7, ok 0 15"},
		{name: "the funnel again", by: l, max: 2, funnel: 11, quota: 1, also: 1,
			want: "ok 0 1, limited 0 10, ok 0 7, ok 0 15"},
		{name: "and again", by: l, max: 2, funnel: 11, quota: 1, also: 1,
			want: "ok 0 1, limited 0 10, ok 0 7, ok 0 15", asks: s.funnel}, // it has just limited the call
		{name: "two of three limit", by: another, max: 1, funnel: 11, quota: 1, also: 1}, // one of them says so
		{name: "a client learns", by: learner, max: 2, funnel: 10, quota: 1, also: 1,
			want: "ok 1 0, ok 10 0, ok 1 6, ok 1 14"},
		{name: "all are full", by: learner, max: 2, funnel: 1, quota: 7, also: 15,
			want: "limited 0 0, limited 0 0, limited 0 6, limited 0 14"},
	} {
		before := s.states(t)
		events := len(recorded.all())
		client.forget()
		got := tryAcquire(t, step.by, s.slots, limiter.Slots{Max: step.max, TTL: time.Hour},
			s.requests(step.funnel, step.quota, step.also)...)
		state := fmt.Sprintf("%s: %+v", step.name, got.Results)
		if step.want == "" {
			require.Equal(t, 1, strings.Count(describe(got.Results...), "limited"), state)
		} else {
			require.Equal(t, step.want, describe(got.Results...), state)
		}
		for i, result := range got.Results {
			require.Equal(t, result.Limited(), result.RetryAfter > 0, state)
			require.Equal(t, i > 0 && result.Allowed > 0, result.Receipt > 0, state)
		}
		if got.Limited() {
			require.Equal(t, before, s.states(t), state)
		}
		commands := map[string]int{}
		for _, event := range recorded.all()[events:] {
			require.NoError(t, event.Err, state)
			commands[event.Command]++
		}
		require.Equal(t, 4, commands["reserve"], "%s: hooks get one decision on each row", state)
		for _, key := range []string{s.slots, s.funnel, s.quota} {
			require.LessOrEqual(t, client.count(key, ""), perNode, "%s: commands on %s: %q", state, key, client.sent)
			if step.asks != "" && key != step.asks {
				require.Zero(t, client.count(key, "reserve"), "%s: %s is only looked at: %q", state, key, client.sent)
			}
		}
	}
}

// requireResults requires the results of a call. If they are others, it shows the call, its results
// and the states of the nodes.
func (s *spread) requireResults(t *testing.T, want, call string, rows []limiter.Request, got []limiter.Result,
	err error) {
	t.Helper()
	require.NoError(t, err, "%s %+v", call, rows)
	require.Equal(t, want, describe(got...), "%s %+v: %+v\nstates: %q", call, rows, got, s.states(t))
}

func testPeekAtSeveralNodes(t *testing.T, s *spread, source limiter.Option) {
	client := &gated{ClusterClient: s.direct}
	l, one, requests := limiter.New(client, source), limiter.Slots{Max: 1, TTL: time.Hour}, s.requests(1, 1, 1)
	require.False(t, tryAcquire(t, l, s.slots, one, s.requests(15, 4, 1)...).Limited())
	results, err := l.PeekAll(t.Context(), one.At(s.slots), requests[0], requests[1], requests[2])
	s.requireResults(t, "limited 0 0, limited 0 0, ok 0 6, ok 0 14", "PeekAll of a slot and", requests, results, err)

	_, err = l.AllowAll(t.Context(), requests[:2]...)
	require.NoError(t, err)
	empty := s.requests(0, 0, 0)
	_, err = l.PeekAll(t.Context(), empty[0], empty[1])
	require.NoError(t, err)
	gone, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err = l.AllowAll(gone, requests[:2]...)
	require.ErrorIs(t, err, context.Canceled)
	client.forget()
	results, err = l.AllowAll(t.Context(), requests[:2]...)
	s.requireResults(t, "limited 0 0, ok 0 6", "AllowAll", requests[:2], results, err)
	require.Zero(t, client.count(s.quota, "reserve"), "the funnel has limited a call, and the quota is only looked at")
}

func testNoTokensOfAnOverfullFunnel(t *testing.T, s *spread, source limiter.Option) {
	l, requests := limiter.New(s.direct, source), s.requests(0, 1, 1)
	_, err := l.Charge(t.Context(), s.funnel, fifteenPerDay, 16)
	require.NoError(t, err)
	got := tryAcquire(t, l, s.slots, twoFor1h, requests...)
	s.requireResults(t, "limited 0 0, ok 0 10, ok 0 15", "TryAcquire of a slot and", requests, got.Results[1:], nil)
	results, err := l.PeekAll(t.Context(), requests[0], requests[1], requests[2])
	s.requireResults(t, "limited 0 0, ok 0 10, ok 0 15", "PeekAll", requests, results, err)
}

func testWrongCallChangesNothing(t *testing.T, s *spread, source limiter.Option) {
	before, wrong := s.states(t), s.requests(1, 1, 1)
	wrong[0].Key = s.slots + "x"
	require.NoError(t, s.direct.LPush(t.Context(), wrong[0].Key, 1).Err())
	results, err := limiter.New(s.direct, source).AllowAll(t.Context(), wrong...)
	require.ErrorIs(t, err, limiter.ErrInvalid)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, "limited 0 0, limited 0 0, limited 0 0", describe(results...), "AllowAll of %+v", wrong)
	require.Equal(t, before, s.states(t), "AllowAll of %+v", wrong)
}

// A call with a quota that has ended never fits, even if another row limits it for a time.
func testEndedQuota(t *testing.T, s *spread, source limiter.Option) {
	l, full := limiter.New(s.direct, source), limiter.Request{s.slots + "y", fifteenPerDay, 1}
	filled, err := l.AllowAll(t.Context(), limiter.Request{full.Key, fifteenPerDay, 15}, s.requests(0, 4, 0)[1])
	require.True(t, err == nil && !filled.Limited(), "%+v, %v", filled, err)
	ended := []limiter.Request{s.requests(0, 8, 0)[1], full, {"x", limiter.Until(10, time.Unix(9, 0)), 1}}
	_, _ = l.AllowAll(t.Context(), ended[:2]...) // both limit; then the funnel does not
	require.NoError(t, l.Reset(t.Context(), full.Key))
	results, err := l.AllowAll(t.Context(), ended...)
	require.NoError(t, err)
	require.Equal(t, limiter.NoRetry, results.RetryAfter(),
		"AllowAll of %+v: %+v\nstates: %q", ended, results, s.states(t))
}

// errNoAnswer is what a gate returns for commands to a node that is down.
var errNoAnswer = errors.New("no answer")

func testOneNodeFails(t *testing.T, s *spread, source limiter.Option) {
	for _, c := range []struct {
		policy   limiter.FailurePolicy
		want     string // if all rows fit that are asked for
		wants    string // if the quota limits
		onlyOnce bool   // what a policy has allowed is not asked again
	}{
		{limiter.FailWithError, "limited 0 0, limited 0 0, limited 0 0", "limited 0 0, limited 0 0, limited 0 0", false},
		{limiter.FailClosed, "limited 0 0, ok 0 10, ok 0 15", "limited 0 0, ok 0 10, ok 0 15", false},
		{limiter.FailOpen, "ok 5 10, ok 1 9, ok 1 14", "ok 0 10, limited 0 9, ok 0 14", true},
		{limiter.FailLocal, "ok 5 10, ok 1 8, ok 1 13", "ok 0 10, limited 0 8, ok 0 13", true},
	} {
		client := &gated{ClusterClient: s.direct, gate: func(command string, send func() error) error {
			if strings.Contains(command, s.funnel) {
				return errNoAnswer
			}
			return send()
		}}
		l := limiter.New(client, source, limiter.OnFailure(c.policy))
		for range 2 {
			require.Contains(t, []limiter.Source{limiter.FromModule, limiter.FromScript},
				allow(t, l, c.policy.String()+s.also, fifteenPerDay).Source, "%v: a node that answers decides", c.policy)
			for range 3 { // then the node is not asked any more
				_, _ = l.Allow(t.Context(), s.funnel+"x", fifteenPerDay)
			}
		}
		before := s.states(t)
		client.forget()
		results, err := l.AllowAll(t.Context(), s.requests(5, 1, 1)...)
		state := fmt.Sprintf("%v, without the node of the funnel: %+v, %v\nsent: %q", c.policy, results, err, client.sent)
		require.Zero(t, client.repeatable, "%s: tokens that are taken twice are given back once", state)
		require.Equal(t, c.want, describe(results...), state)
		require.Equal(t, c.policy == limiter.FailWithError, errors.Is(err, errNoAnswer), state)
		if results.Limited() {
			require.Equal(t, before, s.states(t), state)
		}
		before = s.states(t)
		client.forget()
		results, err = l.AllowAll(t.Context(), s.requests(5, 10, 1)...)
		state = fmt.Sprintf("%v, and the quota limits: %+v, %v\nsent: %q", c.policy, results, err, client.sent)
		require.Equal(t, c.wants, describe(results...), state)
		require.Equal(t, before, s.states(t), state)
		if c.onlyOnce {
			require.Equal(t, 1, client.count(s.quota, "reserve"), state)
		}
	}
}

// A caller asks A and B, while another one holds B and waits for C, which is full and slow to say
// so. Nobody is told to wait for more than a second, although B says an hour; and a caller that
// waits is served.
func testHeldForAMoment(t *testing.T, s *spread, source limiter.Option) {
	const latency = 10 * time.Millisecond
	var group sync.WaitGroup
	perHour := limiter.Per(1, time.Hour)
	slow := &gated{ClusterClient: s.direct, gate: func(command string, send func() error) error {
		if strings.Contains(command, ":full") {
			time.Sleep(latency)
			defer time.Sleep(2 * latency)
		}
		return send()
	}}
	for i := range servertest.QuickOrLong(20, 1000) {
		request := func(key, name string) limiter.Request {
			return limiter.Request{Key: fmt.Sprint(key, name, i), Limit: perHour, Quantity: 1}
		}
		a, b, full := request(s.quota, ":a"), request(s.slots, ":b"), request(s.funnel, ":full")
		allow(t, limiter.New(s.direct, source), full.Key, perHour)
		group.Go(func() {
			results, err := limiter.New(slow, source).AllowAll(context.Background(), b, full)
			if err != nil || !results.Limited() || results.RetryAfter() > time.Second {
				t.Errorf("a caller of %s and %s, of which the second is full: %+v, %v", b.Key, full.Key, results, err)
			}
		})
		group.Go(func() {
			time.Sleep(latency / 2) // the other caller holds B by now, mostly
			within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			results, err := limiter.New(s.direct, source).WaitAll(within, a, b)
			if err != nil {
				t.Errorf("a caller of %s and %s, which are free: %+v, %v", a.Key, b.Key, results, err)
			}
		})
	}
	group.Wait()
}
