// Calls whose rows are on several nodes of a cluster are decided as on one node: all or nothing.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// useKeys chooses keys that no other test has used. The order of the hash tags is quota, slots, funnel.
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

// A gated client counts the commands that it sends. A gate decides when a command is sent, and whether.
type gated struct {
	*redis.ClusterClient
	sent, repeatable atomic.Int64 // go-redis repeats a repeatable one after a lost answer
	gate             func(command string, send func() error) error
}

func (c *gated) Process(ctx context.Context, command redis.Cmder) error {
	send := func() error {
		c.sent.Add(1)
		if !command.NoRetry() {
			c.repeatable.Add(1)
		}
		return c.ClusterClient.Process(ctx, command)
	}
	if c.gate == nil {
		return send()
	}
	return c.gate(fmt.Sprintln(command.Args()...), send)
}

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
			"wrong": testWrongCallChangesNothing, "ended": testEndedQuota, "gives up": testCallerGivesUp,
			"failure": testOneNodeFails, "lost answer": testLostAnswer, "contest": testContestedCalls,
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
		word := map[bool]string{true: "ok", false: "limited"}[result.OK]
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
		sent                int64 // commands
	}{
		{"more than the capacity", l, 2, 16, 1, 1, "ok 0 2, limited 0 15, ok 0 10, ok 0 15", 3}, // the others are peeked at
		{"all fits", l, 2, 5, 3, 0, "ok 1 1, ok 5 10, ok 3 7, ok 0 15", 3},
		{"too many for the funnel", l, 2, 11, 3, 1, "ok 0 1, limited 0 10, ok 0 7, ok 0 15", 14},
		{"too many for the quota", l, 2, 1, 8, 1, "ok 0 1, ok 0 10, limited 0 7, ok 0 15", 10},
		{"too few slots", l, 1, 1, 1, 1, "limited 0 0, ok 0 10, ok 0 7, ok 0 15", 12},
		{"the funnel again", l, 2, 11, 1, 1, "ok 0 1, limited 0 10, ok 0 7, ok 0 15", 16},
		{"and again", l, 2, 11, 1, 1, "ok 0 1, limited 0 10, ok 0 7, ok 0 15", 3}, // the funnel is asked first
		{"two of three limit", another, 1, 11, 1, 1, "", 9},                       // the first in the order of the hash tags
		{"a client learns", learner, 2, 10, 1, 1, "ok 1 0, ok 10 0, ok 1 6, ok 1 14", 4},
		{"all are full", learner, 2, 1, 7, 15, "limited 0 0, limited 0 0, limited 0 6, limited 0 14", 3},
	} {
		before := s.states(t)
		events := len(recorded.all())
		client.sent.Store(0)
		got := tryAcquire(t, step.by, s.slots, limiter.Slots{Max: step.max, TTL: time.Hour},
			s.requests(step.funnel, step.quota, step.also)...)
		state := fmt.Sprintf("%s: %+v", step.name, got)
		results := append(limiter.Results{got.Results[0]}, got.Results[1:]...)
		if step.want == "" {
			require.Equal(t, 1, strings.Count(describe(results...), "limited"), state)
		} else {
			require.Equal(t, step.want, describe(results...), state)
		}
		for i, result := range results {
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
		require.Equal(t, step.sent, client.sent.Load(), "%s: %v", state, commands)
	}
}

// requireResults shows the call, its results and the states of the nodes if the results are not as wanted.
func (s *spread) requireResults(t *testing.T, want, call string, rows []limiter.Request, got []limiter.Result, err error) {
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
	client.sent.Store(0)
	results, err = l.AllowAll(t.Context(), requests[:2]...)
	s.requireResults(t, "limited 0 0, ok 0 6", "AllowAll", requests[:2], results, err)
	require.EqualValues(t, 2, client.sent.Load(), "the funnel, which limited a call, and a peek at the quota")
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
	require.Equal(t, limiter.NoRetry, results.RetryAfter(), "AllowAll of %+v: %+v\nstates: %q", ended, results, s.states(t))
}

// errNoAnswer is what a gate returns for commands to a node that is down.
var errNoAnswer = errors.New("no answer")

func testOneNodeFails(t *testing.T, s *spread, source limiter.Option) {
	for _, c := range []struct {
		policy limiter.FailurePolicy
		want   string // if all rows fit that are asked for
		wants  string // if the quota limits
		sent   int64  // commands, if all rows fit
	}{
		{limiter.FailWithError, "limited 0 0, limited 0 0, limited 0 0", "limited 0 0, limited 0 0, limited 0 0", 3},
		{limiter.FailClosed, "limited 0 0, ok 0 10, ok 0 15", "limited 0 0, ok 0 10, ok 0 15", 3},
		{limiter.FailOpen, "ok 5 10, ok 1 9, ok 1 14", "ok 0 10, limited 0 9, ok 0 14", 1},
		{limiter.FailLocal, "ok 5 10, ok 1 8, ok 1 13", "ok 0 10, limited 0 8, ok 0 13", 1},
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
		client.sent.Store(0)
		client.repeatable.Store(0)
		results, err := l.AllowAll(t.Context(), s.requests(5, 1, 1)...)
		require.Equal(t, c.sent, client.sent.Load(), "%v: commands", c.policy)
		require.Zero(t, client.repeatable.Load(), "%v: tokens that are taken twice are given back once", c.policy)
		require.Equal(t, c.want, describe(results...), c.policy)
		require.Equal(t, c.policy == limiter.FailWithError, errors.Is(err, errNoAnswer), "%v: %v", c.policy, err)
		if results.Limited() {
			require.Equal(t, before, s.states(t), c.policy)
		}
		before = s.states(t)
		client.sent.Store(0)
		results, _ = l.AllowAll(t.Context(), s.requests(5, 10, 1)...)
		require.Equal(t, c.wants, describe(results...), c.policy)
		require.Equal(t, before, s.states(t), c.policy)
		if c.sent == 1 {
			require.Equal(t, c.sent, client.sent.Load(), "%v: what a policy has allowed is not asked again", c.policy)
		}
	}
}

// A caller gives up while the nodes that allowed are refunded.
func testCallerGivesUp(t *testing.T, s *spread, source limiter.Option) {
	_, err := limiter.New(s.direct, source).Charge(t.Context(), s.also, fifteenPerDay, 1)
	require.NoError(t, err)
	before := s.states(t)
	ctx, giveUp := context.WithCancel(t.Context())
	client := &gated{ClusterClient: s.direct, gate: func(command string, send func() error) error {
		if strings.Contains(command, "refund") {
			giveUp()
		}
		return send()
	}}
	l := limiter.New(client, source)
	results, err := l.AllowAll(ctx, s.requests(1, 1, 15)...)
	require.NoError(t, err, "a decision that has arrived counts")
	require.True(t, results.Limited())
	_, err = l.Drain(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, s.states(t), "the tokens are back")
}

// The node of the slots takes one, and its answer is lost. The other nodes are refunded before the call returns, and
// that node soon after.
func testLostAnswer(t *testing.T, s *spread, source limiter.Option) {
	slots, before := s.slots, s.states(t)
	client := &gated{ClusterClient: s.direct, gate: func(command string, send func() error) error {
		err := send()
		if strings.Contains(command, slots) && !strings.Contains(command, "refund") && err == nil {
			return errNoAnswer
		}
		return err
	}}
	_, err := limiter.New(client, source).TryAcquire(t.Context(), rowsFor(s.slots, twoFor1h, s.requests(1, 1, 1)...)...)
	require.ErrorIs(t, err, errNoAnswer)
	require.Equal(t, before[1:], s.states(t)[1:], "the tokens are back")
	servertest.Eventually(t, "the slot is given back", func() bool { return s.states(t)[0] == before[0] })

	for _, failure := range []error{errNoAnswer, servertest.ErrorReply("LOADING")} { // of refunds
		var asked atomic.Int64 // how often slots were asked for
		var works, isBack atomic.Bool
		l := limiter.New(&gated{ClusterClient: s.direct, gate: func(command string, send func() error) error {
			switch {
			case !strings.Contains(command, slots):
			case !strings.Contains(command, "refund"):
				asked.Add(1)
			case !works.Load():
				return failure
			default:
				isBack.Store(true)
			}
			return send()
		}}, source)
		held := tryAcquire(t, l, s.slots, twoFor3s, s.requests(1, 1, 1)...)
		require.False(t, held.Limited(), failure)
		require.True(t, tryAcquire(t, l, s.slots, twoFor3s, s.requests(15, 1, 1)...).Limited(), failure)
		require.EqualValues(t, 2, asked.Load(), "%v: a refund in the background would end the slot of a second asking, too", failure)
		works.Store(true)
		servertest.Eventually(t, "the slot is given back", isBack.Load)
		require.NoError(t, held.Release(t.Context()), failure)
	}
}

// Two callers refuse each other. Once both have given back, one is allowed. The commands are sent in an order; the
// commands after it wait until it has ended.
func testContestedCalls(t *testing.T, s *spread, source limiter.Option) {
	for name, order := range map[string][]string{
		"each holds what the other one needs": {"0 funnel", "1 also", "0 also", "1 funnel", "0 refund", "1 refund"},
		"an ordered call meets what is not given back yet, and the other one meets the ordered call": {
			"0 also", "1 funnel", "0 funnel", "1 also", "0 refund", "0 also", "0 funnel", "1 refund", "1 also"},
	} {
		s.useKeys(t, fmt.Sprint(t.Name(), len(order)))
		requests, limited := []limiter.Request{{s.funnel, fifteenPerDay, 10}, {s.also, fifteenPerDay, 10}}, [2]bool{}
		var callers sync.WaitGroup
		turn := sync.NewCond(&sync.Mutex{})
		for i, request := range requests {
			allow(t, limiter.New(s.direct, source), request.Key+"x", fifteenPerDay) // the node has the script
			client := &gated{ClusterClient: s.Client(t), gate: func(command string, send func() error) error {
				step := fmt.Sprint(i, " also")
				switch {
				case strings.Contains(command, "refund"):
					step = fmt.Sprint(i, " refund")
				case strings.Contains(command, s.funnel):
					step = fmt.Sprint(i, " funnel")
				}
				turn.L.Lock()
				defer turn.L.Unlock()
				for len(order) > 0 && order[0] != step {
					turn.Wait()
				}
				order = order[min(1, len(order)):]
				defer turn.Broadcast()
				return send()
			}}
			callers.Go(func() {
				results, err := limiter.New(client, source).AllowAll(context.Background(), requests...)
				limited[i] = results.Limited()
				if err != nil {
					t.Errorf("%s: caller %d: %v", name, i, err)
				}
			})
		}
		callers.Wait()
		require.NotEqual(t, limited[0], limited[1], "%s: one of two is allowed: caller 0 was limited: %v", name, limited[0])
	}
}
