package line

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// inBubble runs a test with lines that go by the clock of a bubble, for each case.
func inBubble[Case any](t *testing.T, cases []Case, test func(t *testing.T, l *Lines[string], c Case)) {
	for _, c := range cases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				test(t, New[string](func() time.Duration { return time.Since(began) }), c)
			})
		})
	}
}

// turn waits for the turn, and returns how long that took.
func (p *Place) turn(t *testing.T) time.Duration {
	began := time.Now()
	_, err := p.Await(t.Context())
	require.NoError(t, err)
	return time.Since(began)
}

// Pauses follow the longer of two means, from 5 ms to a second, and end when something comes back.
func TestPauses(t *testing.T) {
	type times struct{ apart, age, least time.Duration }
	inBubble(t, []times{
		{0, 0, 5 * time.Millisecond},
		{100 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond},
		{20 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
		{time.Minute, -time.Minute, 2 * time.Second / 3},
	}, func(t *testing.T, l *Lines[string], c times) {
		p := l.Join("key", 2, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Join("key", 2, nil).Await(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the second does not ask, even if the first does not")
		for range 100 { // until the means are known
			p.turn(t)
			l.Held("key", c.apart)
			l.Woken("key")
			p.Limited(c.age)
		}
		require.Zero(t, p.turn(t), "something has come back during the turn")
		p.Limited(c.age)
		waited := p.turn(t)
		require.True(t, waited >= c.least*99/100 && waited <= c.least*3/2, waited)
		p.Limited(c.age)
		time.AfterFunc(time.Millisecond, func() {
			l.Held("key", c.apart)
			l.Woken("key")
		})
		require.Equal(t, time.Millisecond, p.turn(t))
	})
}

// After every fourth turn other processes go first, but only if there are any, nothing is free, and more callers wait.
func TestShares(t *testing.T) {
	type served struct{ full, shared, moreWait, yields bool }
	inBubble(t, []served{
		{true, true, true, true}, {false, true, true, false}, {true, false, true, false}, {true, true, false, false},
	}, func(t *testing.T, l *Lines[string], c served) {
		for i := range 12 {
			p, more := l.Join("key", 2, nil), (*Place)(nil)
			if c.moreWait {
				more = l.Join("key", 2, nil)
			}
			l.Woken("key")
			require.Equal(t, c.yields && i > 0 && i%4 == 0, p.turn(t) > 0, "turn %d", i+1)
			p.Served(c.full, c.shared)
			p.Leave()
			if more != nil {
				more.Leave()
			}
		}
	})
}

// A line is forgotten a minute after the last caller has left it.
func TestLinesAreForgotten(t *testing.T) {
	inBubble(t, []bool{false, true}, func(t *testing.T, l *Lines[string], isOver bool) {
		left := map[bool]int{false: 2000, true: 1000}[isOver]
		for i := range 1000 {
			l.Join(fmt.Sprint(i), 1, nil).Leave()
		}
		time.Sleep(forgetAfter - time.Duration(left-1000))
		for i := range 1000 {
			l.Join(fmt.Sprint("later ", i), 1, nil)
		}
		require.InDelta(t, left, l.lines.Len(), 300)
	})
}
