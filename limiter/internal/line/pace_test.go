// How long the first caller waits before it asks again, and when it lets other processes go first.

package line

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// requirePause requires a pause of least, with a jitter of up to a half. A mean is a little below
// what it has learned. What says what came before the pause.
func requirePause(t *testing.T, least, took time.Duration, what string) {
	t.Helper()
	require.GreaterOrEqual(t, took, least*99/100, "the pause after this: %s", what)
	require.LessOrEqual(t, took, least*3/2, "the pause after this: %s", what)
}

// Pauses follow the longer of two means: the time between two releases here, and the age in
// replies. They are no shorter than 5 ms, and no longer than a second. They end when something
// comes back.
func TestPauses(t *testing.T) {
	for _, c := range []struct {
		name              string
		apart, age, least time.Duration
	}{
		{name: "the shortest", apart: 0, age: 0, least: 5 * ms},
		{name: "releases here are further apart", apart: 100 * ms, age: 20 * ms, least: 100 * ms},
		{name: "releases anywhere are further apart", apart: 20 * ms, age: 100 * ms, least: 100 * ms},
		{name: "the longest", apart: time.Minute, age: -time.Minute, least: 2 * time.Second / 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				l := newLines()
				p := l.Join("key", 1, 0)
				for range 100 { // until the means are known
					p.turn(t)
					l.Released("key", c.apart)
					p.Limited(c.age)
				}
				_, took := p.turn(t)
				require.Zero(t, took, "something has come back during the turn")
				seen := map[time.Duration]bool{}
				for range 100 {
					p.Limited(c.age)
					_, took = p.turn(t)
					requirePause(t, c.least, took, fmt.Sprintf("released each %v, age %v", c.apart, c.age))
					seen[took] = true
				}
				require.Greater(t, len(seen), 50, "pauses differ, so that processes do not ask in step")
				p.Limited(c.age)
				time.AfterFunc(ms, func() { l.Released("key", c.apart) })
				_, took = p.turn(t)
				require.Equal(t, ms, took, "something has come back during the pause")
			})
		})
	}
}

// A mean moves by an eighth of the way: two releases of 8 s, which count as a second each, are a
// mean of 15/64 of a second.
func TestMeansMoveByAnEighth(t *testing.T) {
	var mean time.Duration
	learn(&mean, 8*time.Second)
	require.Equal(t, time.Second/8, mean)
	learn(&mean, time.Second)
	require.Equal(t, time.Second*15/64, mean)
	learn(&mean, -time.Second)
	require.Equal(t, time.Second*105/512, mean)
}

// A release of a key that nobody waits for is nothing.
func TestReleasedWithoutALine(t *testing.T) {
	l := newLines()
	l.Released("key", time.Second)
	require.Nil(t, l.get("key"))
}

// A service is how a caller was served: what it left, and who waited.
type service struct{ full, shared, moreWait bool }

// contended is how a caller is served if it takes the last slot, and others wait here and
// elsewhere.
var contended = service{full: true, shared: true, moreWait: true}

// serve has a caller served after a release, and returns how long that took.
func serve(t *testing.T, l *lines, how service) time.Duration {
	t.Helper()
	p := l.Join("key", 2, 0)
	if how.moreWait {
		defer l.Join("key", 2, 0).Leave()
	}
	time.Sleep(time.Minute) // so that all earlier pauses are over
	l.Released("key", 0)
	_, took := p.turn(t)
	p.Served(how.full, how.shared)
	p.Leave()
	return took
}

// After every fourth caller that was served in a row, other processes go first: when something
// comes back the next time, the first caller here waits for a pause. It does not if other processes
// have no callers, if something is free, or if nobody else waits here.
func TestEveryFourthCallerYields(t *testing.T) {
	for _, c := range []struct {
		name   string
		how    service
		yields bool
	}{
		{name: "others may wait", how: contended, yields: true},
		{name: "more is free", how: service{full: false, shared: true, moreWait: true}},
		{name: "there are no others", how: service{full: true, shared: false, moreWait: true}},
		{name: "nobody else waits here", how: service{full: true, shared: true, moreWait: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				l := newLines()
				for served := range 12 {
					took := serve(t, l, c.how)
					if c.yields && served > 0 && served%4 == 0 {
						requirePause(t, 5*ms, took, fmt.Sprint(served, " callers were served"))
					} else {
						require.Zero(t, took, "after %d callers", served)
					}
				}
			})
		})
	}
}

// Only callers in a row count. After a caller that leaves something free, the count begins again.
func TestYieldingCountsCallersInARow(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := newLines()
		for i, full := range []bool{true, true, true, false, true, true, true, true} {
			took := serve(t, l, service{full: full, shared: true, moreWait: true})
			require.Zero(t, took, "caller %d of three, a fourth who left something free, and four", i+1)
		}
		require.NotZero(t, serve(t, l, contended), "after four in a row")
	})
}

// While other processes go first, a second release does not end the pause.
func TestYieldingIsNotCut(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := newLines()
		for range 4 {
			serve(t, l, contended)
		}
		l.Released("key", 0)
		time.Sleep(ms)
		l.Released("key", 0)
		_, took := l.Join("key", 1, 0).turn(t)
		requirePause(t, 5*ms, ms+took, "four callers were served, and then two releases came")
	})
}
