// The parts of a lease: grants, the demand, the last reply, and how many tokens a lease asks for,
// and when.

package lease

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// twoGrants returns 2 tokens until 5 and 3 tokens until 9.
func twoGrants() grants {
	g := grants{interval: 10}
	g = g.with(2, 1000, 0, 5)
	return g.with(3, 2000, 5, 9)
}

func TestGrantsEnd(t *testing.T) {
	g := twoGrants()
	for at, want := range map[time.Duration]int{0: 5, 5: 5, 6: 3, 9: 3, 10: 0} {
		require.Equal(t, want, g.ahead(at), "at %d", at)
	}
	require.Len(t, g.all, 2)
	g.take(0, 2)
	g = g.with(1, 3000, 5, 20)
	require.Len(t, g.all, 2, "a grant that is used up is left out")
	g = g.with(1, 4000, 10, 20)
	require.Len(t, g.all, 2, "a grant that has ended is left out")

	huge := grants{interval: 1}
	huge = huge.with(math.MaxInt, 1, 0, 1)
	huge = huge.with(math.MaxInt, 1, 0, 1)
	require.Equal(t, math.MaxInt, huge.ahead(0))
}

func TestRefillIsDue(t *testing.T) {
	g := twoGrants()
	r := refill{from: 2, early: 2, tokens: 4}
	require.False(t, r.isDue(3, &g), "5 tokens are left at 5")
	require.True(t, r.isDue(4, &g), "3 tokens are left at 6")
	r.from = 5
	require.False(t, r.isDue(4, &g), "it is too early to ask again")
	require.False(t, (&refill{}).isDue(10, &g), "the zero refill never asks")
}

func TestDemandDoesNotOverflow(t *testing.T) {
	var d demand
	for range 3 {
		d.add(0, 10, math.MaxInt-1)
		require.Positive(t, d.inSpan())
	}
}

// A reply rejects calls for as long as Redis certainly would, and no longer than 5 seconds.
func TestReplyRejects(t *testing.T) {
	const sent, ms = time.Second, time.Millisecond
	perTenth := limiter.Every(100 * ms).WithCapacity(10)
	hourly := limiter.Every(time.Hour).WithCapacity(10)
	// The funnel drains in 950 ms: 50 ms from now it holds 9 tokens, and one more fits.
	gotLess := limiter.Result{Quantity: 2, Allowed: 1, ResetAfter: 950 * ms}
	full := limiter.Result{Quantity: 2, ResetAfter: 10 * time.Hour}
	gotAll := limiter.Result{Quantity: 1, Allowed: 1, ResetAfter: 950 * ms}
	for _, c := range []struct {
		name     string
		reply    limiter.Result
		limit    limiter.Limit
		d        time.Duration
		shared   bool
		after    time.Duration // when a call comes, from when the replied call was sent
		quantity int
		want     time.Duration
	}{
		{"one token does not fit yet", gotLess, perTenth, time.Hour, false, 0, 1, 50 * ms},
		{"it fits earlier by the time that has passed", gotLess, perTenth, time.Hour, false, 40 * ms, 1, 10 * ms},
		{"ten tokens need an empty funnel", gotLess, perTenth, time.Hour, false, 0, 10, 950 * ms},
		{"no longer than 5 s", full, hourly, time.Hour, false, 5 * time.Second, 10, 0},
		{"shared: until half of the capacity has leaked", gotLess, perTenth, time.Hour, true, 40 * ms, 1, 460 * ms},
		{"shared: until d is over", gotLess, perTenth, 200 * ms, true, 40 * ms, 1, 160 * ms},
		{"shared: until the tokens fit, if that is later", gotLess, perTenth, 200 * ms, true, 40 * ms, 10, 910 * ms},
		{"shared: no longer than 5 s", gotLess, hourly, time.Hour, true, 0, 1, 5 * time.Second},
		{"shared: it is over", gotLess, perTenth, time.Hour, true, 500 * ms, 1, 0},
		{"a call that got all rejects nothing", gotAll, perTenth, time.Hour, true, 0, 10, 0},
		{"but with d of 0, what cannot fit", gotAll, perTenth, 0, false, 0, 10, 950 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := newLastReply(c.reply, c.limit, c.limit.Period, sent)
			require.LessOrEqual(t, reply.rejectedFor(sent, 10), time.Duration(0), "not before rejectOthers")
			reply.rejectOthers(c.d, c.shared)
			require.Equal(t, c.want, max(0, reply.rejectedFor(sent+c.after, c.quantity)))
			reply.rejectNone()
			require.LessOrEqual(t, reply.rejectedFor(sent, 10), time.Duration(0), "not after rejectNone")
		})
	}
}

// A noLimiter panics: it is for leases that must not ask.
type noLimiter struct{ Limiter }

// newLease returns a lease of one key, whose Limiter must not be asked.
func newLease(t *testing.T, limit limiter.Limit, d time.Duration) *lease {
	l := New(noLimiter{}, d).find(limiter.Request{Key: "key", Limit: limit})
	require.NotNil(t, l)
	return l
}

func waitersFor(quantities ...int) (waiters []*waiter) {
	for _, quantity := range quantities {
		waiters = append(waiters, &waiter{context.Background(), quantity, make(chan outcome, 1)})
	}
	return waiters
}

func TestWanted(t *testing.T) {
	perSecond := limiter.Every(time.Second)
	for _, c := range []struct {
		name    string
		limit   limiter.Limit
		d       time.Duration
		demand  []int // quantities of calls, the waiters' included
		ahead   int
		waiters []int
		want    int
	}{
		{"the tokens of one caller", perSecond.WithCapacity(100), time.Minute, []int{1}, 0, []int{1}, 1},
		{"of three callers", perSecond.WithCapacity(100), time.Minute, []int{1, 2, 3}, 0, []int{1, 2, 3}, 6},
		{"half of the demand, rounded down", perSecond.WithCapacity(100), time.Minute, []int{8, 1}, 0, []int{1}, 4},
		{"one call of 10: nothing more", perSecond.WithCapacity(100), time.Minute, []int{10}, 0, []int{10}, 10},
		{"a tenth of the capacity ahead", perSecond.WithCapacity(30), time.Minute, []int{99, 1}, 0, []int{1}, 1 + 3},
		{"what leaks in d ahead", perSecond.WithCapacity(100), 5 * time.Second, []int{99, 1}, 0, []int{1}, 1 + 5},
		{"what is ahead counts", perSecond.WithCapacity(100), time.Minute, []int{99, 1}, 8, []int{1}, 1 + 2},
		{"more is ahead than may be", perSecond.WithCapacity(100), time.Minute, []int{99, 1}, 20, []int{1}, 1},
		{"nothing ahead with d of 0", perSecond.WithCapacity(100), 0, []int{99, 1}, 0, []int{1}, 1},
		{"for nobody: half of the demand", perSecond.WithCapacity(100), time.Minute, []int{9, 9}, 0, nil, 9},
		{"no overflow", limiter.PerSecond(1e9).WithCapacity(math.MaxInt), time.Minute,
			[]int{9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17}, 0,
			[]int{9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17, 9e17}, math.MaxInt},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLease(t, c.limit, c.d)
			for _, quantity := range c.demand {
				l.demand.add(0, max(c.d, 1), quantity)
			}
			known := *l.state.Load()
			known.grants = known.grants.with(c.ahead, 0, 0, c.d)
			require.Equal(t, c.want, l.wanted(&known, waitersFor(c.waiters...), 0))
		})
	}
}

func TestWhenTokensAreScarceCallersOfSeveralTokensAskAlone(t *testing.T) {
	l := newLease(t, limiter.Every(time.Second).WithCapacity(100), time.Minute)
	l.asking.Store(true)
	l.queue = waitersFor(3, 1, 2)
	c := l.nextTokenCall(false)
	require.Equal(t, 6, c.quantity)
	require.Len(t, c.waiters, 3)
	require.Empty(t, l.queue)

	scarce := *l.state.Load()
	scarce.reply.result = limiter.Result{Quantity: 2, Allowed: 1}
	l.state.Store(&scarce)
	l.queue = waitersFor(3, 1, 2)
	c = l.nextTokenCall(false)
	require.Equal(t, 3, c.quantity, "the first in line")
	require.Len(t, l.queue, 2)
	c = l.nextTokenCall(false)
	require.Equal(t, 3, c.quantity, "a caller of one token shares: one token serves it")
	require.Empty(t, l.queue)
	require.Nil(t, l.nextTokenCall(false))
	require.False(t, l.asking.Load())
}

// A lease asks ahead only if the reply brought all, in time, and if what it may have ahead is
// enough.
func TestRefill(t *testing.T) {
	const d = 24 * time.Hour
	for _, c := range []struct {
		name    string
		allowed int // of 10
		took    time.Duration
		demand  int
		want    refill
	}{
		{"early: an eighth of d, and as long as the call took", 10, d / 8, 80, refill{d / 3, d / 4, 20}},
		{"no more tokens than half of what may be ahead", 10, 3 * d / 8, 180, refill{d / 3, d / 2, 50}},
		{"the call got less", 9, 0, 80, refill{}},
		{"the call took half of d", 10, d / 2, 80, refill{}},
		{"half of the demand is more than may be ahead", 10, 0, 202, refill{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLease(t, limiter.Every(time.Second).WithCapacity(1000), d)
			l.leases.now = func() time.Duration { return c.took }
			l.demand.add(0, d, c.demand)
			next := *l.state.Load()
			l.learn(&next, &tokenCall{waiters: waitersFor(1, 9), quantity: 10}, limiter.Result{Quantity: 10, Allowed: c.allowed})
			require.Equal(t, c.want, next.refill)
		})
	}
}

// Callers who came during a call are served first: callers who came later do not see its tokens
// yet.
func TestReceiveServesTheQueue(t *testing.T) {
	l := newLease(t, limiter.Every(time.Second).WithCapacity(100), time.Minute)
	l.queue = waitersFor(1, 2, 1) // the second one does not fit
	reply := limiter.Result{Quantity: 2, Allowed: 2, Source: limiter.FromModule}
	gaveUp, cancel := context.WithCancel(context.Background())
	cancel()
	waiters := waitersFor(2)
	waiters[0].ctx = gaveUp
	l.receive(&tokenCall{waiters: waiters, quantity: 2, sent: l.leases.now()}, reply, nil)
	require.Empty(t, waiters[0].done)
	require.Len(t, l.queue, 1)
	require.Equal(t, 2, l.queue[0].quantity)
	require.Zero(t, l.state.Load().grants.ahead(l.leases.now()), "both others have one")
}
