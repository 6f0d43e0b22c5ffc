// Callers of one line, in one process: who asks, when, and how a turn ends. Times are the bubble's.

package line

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

type (
	lines = Lines[string, int]
	place = Place[string, int]
)

// newLines returns lines that go by the clock of the bubble.
func newLines() *lines {
	began := time.Now()
	return New[string, int](func() time.Duration { return time.Since(began) })
}

// turn waits for a caller's turn, and returns it with how long that took.
func (p *Place[Key, Wants]) turn(t *testing.T) (Turn, time.Duration) {
	t.Helper()
	const long = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	began := time.Now()
	turn, err := p.Await(ctx)
	require.NoError(t, err, "caller %d has no turn within %v", p.number, long)
	return turn, time.Since(began)
}

// requireNoTurn requires that it is not a caller's turn for a time.
func (p *Place[Key, Wants]) requireNoTurn(t *testing.T, during time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(during, cancel) // a deadline would tell the line that the caller is in a hurry
	_, err := p.Await(ctx)
	require.ErrorIs(t, err, context.Canceled, "caller %d has a turn", p.number)
}

// goOn has callers wait for their turns, each in a goroutine. In its turn a caller adds its name to
// a list, and leaves.
func goOn(t *testing.T, list *[]string, callers map[string]*place) {
	for name, p := range callers {
		go func() {
			p.turn(t)
			*list = append(*list, name)
			p.Leave()
		}()
	}
	synctest.Wait()
}

// Callers ask one at a time, in the order in which they have joined. They are told how long they
// have waited, and how many wait behind them.
func TestCallersAskInTheOrderOfJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		var places []*place
		for range 4 {
			places = append(places, l.Join("key", 4, 0))
			time.Sleep(time.Second)
		}
		for i, p := range places {
			for _, behind := range places[i+1:] {
				behind.requireNoTurn(t, time.Second)
			}
			turn, took := p.turn(t)
			require.Zero(t, took, "caller %d", i)
			require.Equal(t, 3-i, turn.Behind, "caller %d", i)
			for _, behind := range places[i+1:] {
				behind.requireNoTurn(t, time.Second)
			}
			p.Leave()
		}
		other, _ := l.Join("another key", 1, 0).turn(t)
		require.Equal(t, Turn{}, other, "lines of other keys are other lines")
	})
}

func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		first, second := l.Join("key", 2, 0), l.Join("key", 2, 0)
		time.Sleep(3 * time.Second)
		turn, _ := first.turn(t)
		require.Equal(t, Turn{Waited: 3 * time.Second, Behind: 1}, turn)
		time.Sleep(time.Second)
		first.Leave()
		turn, _ = second.turn(t)
		require.Equal(t, Turn{Waited: 4 * time.Second}, turn)
	})
}

// A caller that gives up makes room, wherever in the line it is, and whether or not it asks.
func TestCallersThatGiveUp(t *testing.T) {
	for _, gone := range []string{"first", "second", "third"} {
		t.Run(gone, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLines()
				asks := l.Join("key", 9, 0)
				asks.turn(t)
				callers, want, got := map[string]*place{}, []string(nil), []string(nil)
				for _, name := range []string{"first", "second", "third"} {
					callers[name] = l.Join("key", 9, 0)
					if name != gone {
						want = append(want, name)
					}
				}
				leaves := callers[gone]
				delete(callers, gone)
				goOn(t, &got, callers)
				require.Empty(t, got, "somebody asks already")
				leaves.Leave()
				asks.Leave()
				synctest.Wait()
				require.Equal(t, want, got)
			})
		})
	}
}

// Await ends with the cause of the context. A caller whose turn it is gets it all the same.
func TestAwaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tired := newLines(), errors.New("tired")
		first, second := l.Join("key", 2, 0), l.Join("key", 2, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(tired) })
		turn, err := second.Await(ctx)
		require.Equal(t, tired, err)
		require.Equal(t, 2*time.Second, turn.Waited)
		_, err = first.Await(ctx)
		require.NoError(t, err, "it is the turn of the first")
	})
}

// No more callers than allowed wait in a line. The caller that asks counts, and so do callers that
// are away.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		require.Nil(t, l.Join("key", 0, 0))
		away := l.Join("key", 3, 0)
		away.turn(t)
		away.Away(time.Second, false, func(int) bool { return false })
		asks := l.Join("key", 3, 0)
		asks.turn(t)
		third := l.Join("key", 3, 0)
		require.NotNil(t, third)
		require.Nil(t, l.Join("key", 3, 0), "three wait already")
		require.NotNil(t, l.Join("another key", 3, 0))
		third.Leave()
		require.NotNil(t, l.Join("key", 3, 0), "one has left")
	})
}

// A failure answers all callers that were in the line when it came, without asking. Callers who
// join later ask.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failure := newLines(), errors.New("connection refused")
		first, second, third := l.Join("key", 9, 0), l.Join("key", 9, 0), l.Join("key", 9, 0)
		first.turn(t)
		first.Failed(failure)
		later := l.Join("key", 9, 0)
		first.Leave()
		for _, p := range []*place{second, third} {
			turn, took := p.turn(t)
			require.Equal(t, failure, turn.Failure, "caller %d of 3 was in the line", p.number)
			require.Zero(t, took, "caller %d of 3 is answered at once", p.number)
			p.Leave()
		}
		turn, _ := later.turn(t)
		require.NoError(t, turn.Failure, "the fourth caller has joined after the failure")
	})
}

// A caller that asks again after a failure, and is told that nothing is free, ends the failure for
// those behind it. So does an empty line.
func TestFailuresEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failure := newLines(), errors.New("connection refused")
		first, second := l.Join("key", 9, 0), l.Join("key", 9, 0)
		first.turn(t)
		first.Failed(failure)
		first.Limited(0)
		turn, _ := first.turn(t)
		require.NoError(t, turn.Failure, "it has asked since")
		first.Leave()
		turn, _ = second.turn(t)
		require.NoError(t, turn.Failure, "the first has asked since")
		second.Failed(failure)
		second.Leave()
		turn, _ = l.Join("key", 9, 0).turn(t)
		require.NoError(t, turn.Failure, "it joined after the failure")
	})
}

// A failure ends a pause: callers get it at once. A caller that joins later does not pause either,
// if something is free.
func TestFailuresEndPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failure := newLines(), errors.New("connection refused")
		first, second := l.Join("key", 9, 0), l.Join("key", 9, 0)
		first.turn(t)
		first.Served(true, false)
		first.Failed(failure)
		first.Leave()
		turn, took := second.turn(t)
		require.Equal(t, failure, turn.Failure, "the second was in the line when the failure came")
		require.Zero(t, took, "the pause after the first was served ends with the failure")
		third := l.Join("key", 9, 0)
		second.Served(false, false) // by a policy that decides instead
		second.Leave()
		turn, took = third.turn(t)
		require.NoError(t, turn.Failure, "the third has joined after the failure")
		require.Zero(t, took, "the second was served, and left something free")
	})
}

// A caller that lacks something leaves the line until it is due, and then has its old place.
// Meanwhile the callers behind it ask, unless they lack the same. Callers who lack the same, but
// cannot wait so long, ask as well, so that they learn why they do not get it.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		first, second, third, fourth := l.Join("key", 9, 10), l.Join("key", 9, 12), l.Join("key", 9, 3), l.Join("key", 9, 12)
		first.turn(t)
		first.Away(time.Minute, false, func(wants int) bool { return wants >= 10 })

		second.requireNoTurn(t, 59*time.Second+999*ms)
		time.Sleep(ms)
		turn, took := first.turn(t)
		require.Zero(t, took, "it was due after a minute")
		require.Equal(t, Turn{Waited: time.Minute, Behind: 2}, turn, "the second waits on, and is away")
		first.Away(time.Minute, false, func(wants int) bool { return wants >= 10 })

		var got []string
		goOn(t, &got, map[string]*place{"second": second, "third": third})
		require.Equal(t, []string{"third"}, got, "it does not lack the same, and asks at once")
		hurried, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := fourth.Await(hurried)
		require.NoError(t, err, "it cannot wait for a minute")
		fourth.Leave()

		goOn(t, &got, map[string]*place{"first": first})
		require.Equal(t, []string{"third"}, got)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"third", "first", "second"}, got)
	})
}

// A caller that can wait exactly until it is due does not ask before that.
func TestAwayUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		first, second := l.Join("key", 9, 0), l.Join("key", 9, 0)
		first.turn(t)
		first.Away(time.Minute, false, func(int) bool { return true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, _ = second.Await(ctx) // a turn or an error: it is due at the deadline
		require.Equal(t, time.Minute, time.Since(began), "the second can wait until the first is due, and no longer")
	})
}

// A line knows what the callers behind lack until that is due, and not for longer.
func TestLackingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		first := l.Join("key", 9, 0)
		first.turn(t)
		first.Away(time.Minute, false, func(int) bool { return true })
		first.Leave()
		time.Sleep(time.Minute)
		_, took := l.Join("key", 9, 0).turn(t)
		require.Zero(t, took, "a minute after the first lacked something that was due within a minute")
	})
}

// If nothing is free, the next caller asks after a pause, whichever way the turn has ended.
func TestPausesFollowTurns(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(p *place)
		pauses bool
	}{
		{name: "served, and nothing is free", end: func(p *place) { p.Served(true, false); p.Leave() }, pauses: true},
		{name: "served, and more is free", end: func(p *place) { p.Served(false, false); p.Leave() }, pauses: false},
		{name: "away, and nothing is free", end: func(p *place) { p.Away(time.Hour, true, lacksNothing) }, pauses: true},
		{name: "away, and something is free", end: func(p *place) { p.Away(time.Hour, false, lacksNothing) }, pauses: false},
		{name: "limited, and given up", end: func(p *place) { p.Limited(0); p.Leave() }, pauses: true},
		{name: "without an answer", end: func(p *place) { p.Leave() }, pauses: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLines()
				first, second := l.Join("key", 9, 0), l.Join("key", 9, 0)
				first.turn(t)
				c.end(first)
				_, took := second.turn(t)
				require.Equal(t, c.pauses, took > 0, "the turn of the second came after %v", took)
			})
		})
	}
}

func lacksNothing(int) bool { return false }

// A line that everybody has left does not pause: nobody knows what has come back since.
func TestEmptyLinesDoNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		first := l.Join("key", 9, 0)
		first.turn(t)
		first.Served(true, false)
		first.Leave()
		_, took := l.Join("key", 9, 0).turn(t)
		require.Zero(t, took, "the first was served, and left nothing free, and everybody has left")
	})
}
