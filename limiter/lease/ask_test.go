// How many tokens a lease asks for, and when it asks ahead.

package lease

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A noLimiter is for leases that are not asked. Its methods panic.
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
	c := l.nextCall(false)
	require.Equal(t, 6, c.quantity)
	require.Len(t, c.waiters, 3)
	require.Empty(t, l.queue)

	scarce := *l.state.Load()
	scarce.reply.result = limiter.Result{Quantity: 2, Allowed: 1}
	l.state.Store(&scarce)
	l.queue = waitersFor(3, 1, 2)
	c = l.nextCall(false)
	require.Equal(t, 3, c.quantity, "the first in line")
	require.Len(t, l.queue, 2)
	c = l.nextCall(false)
	require.Equal(t, 3, c.quantity, "a caller of one token shares: one token serves it")
	require.Empty(t, l.queue)
	require.Nil(t, l.nextCall(false))
	require.False(t, l.asking.Load())
}

// A lease asks ahead only if the reply brought all, in time, and if what it may have ahead is enough.
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
			l.learn(&next, &call{waiters: waitersFor(1, 9), quantity: 10}, limiter.Result{Quantity: 10, Allowed: c.allowed})
			require.Equal(t, c.want, next.refill)
		})
	}
}

// Callers who came during a call are served before callers who see its tokens only later.
func TestReceiveServesTheQueue(t *testing.T) {
	l := newLease(t, limiter.Every(time.Second).WithCapacity(100), time.Minute)
	l.queue = waitersFor(1, 2, 1) // the second one does not fit
	reply := limiter.Result{Quantity: 2, Allowed: 2, Source: limiter.FromModule}
	gaveUp, cancel := context.WithCancel(context.Background())
	cancel()
	waiters := waitersFor(2)
	waiters[0].ctx = gaveUp
	l.receive(&call{waiters: waiters, quantity: 2, sent: l.leases.now()}, reply, nil)
	require.Empty(t, waiters[0].done)
	require.Len(t, l.queue, 1)
	require.Equal(t, 2, l.queue[0].quantity)
	require.Zero(t, l.state.Load().grants.ahead(l.leases.now()), "both others have one")
}
