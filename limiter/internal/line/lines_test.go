// Which lines are kept, and for how long.

package line

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// leaveEach has a caller join and leave each of some lines.
func leaveEach(l *lines, name string, count int) {
	for i := range count {
		l.Join(fmt.Sprint(name, i), 1, 0).Leave()
	}
}

// requireLines requires how many lines there are: lines in use, and lines that all callers have
// left.
func requireLines(t *testing.T, l *lines, inUse, left int) {
	t.Helper()
	synctest.Wait()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	require.Equal(t, []int{inUse, left}, []int{len(l.inUse), len(l.kept) + len(l.before)}, "lines in use, and lines left")
}

// A line is kept for a minute at least and for two at most after its last caller has left it, even
// if nobody joins any line after that. In the end nothing remains, not even the maps.
func TestLinesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		for range 2 {
			leaveEach(l, "at once", 100)
			time.Sleep(time.Minute - time.Nanosecond)
			leaveEach(l, "just before a minute", 100)
			time.Sleep(2 * time.Nanosecond)
			leaveEach(l, "just after a minute", 100)
			time.Sleep(time.Minute - 2*time.Nanosecond)
			requireLines(t, l, 0, 300)
			time.Sleep(time.Nanosecond)
			requireLines(t, l, 0, 100)
			time.Sleep(time.Minute)
			requireLines(t, l, 0, 0)
			require.Nil(t, l.inUse)
			require.Nil(t, l.kept)
			require.Nil(t, l.before)
			time.Sleep(time.Minute / 2)
		}
	})
}

// A line with callers is not forgotten, however long they wait, and whenever they have joined it.
func TestLinesInUseAreKept(t *testing.T) {
	for _, joined := range []time.Duration{0, 59 * time.Second, 61 * time.Second} {
		t.Run(joined.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLines()
				leaveEach(l, "key", 1)
				time.Sleep(joined)
				first := l.Join("key0", 2, 0)
				requireLines(t, l, 1, 0)
				time.Sleep(time.Hour)
				requireLines(t, l, 1, 0)
				second := l.Join("key0", 2, 0)
				require.Same(t, first.line, second.line)
				require.Nil(t, l.Join("key0", 2, 0), "two wait already")
				first.Leave()
				requireLines(t, l, 1, 0)
				second.Leave()
				requireLines(t, l, 0, 1)
			})
		})
	}
}

// A caller that joins a line that others have left finds the pace that they have learned.
func TestLinesRememberTheirPace(t *testing.T) {
	for _, later := range []time.Duration{0, 59 * time.Second, 61 * time.Second} {
		t.Run(later.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLines()
				first := l.Join("key", 1, 0)
				for range 100 {
					l.Released("key", 200*ms)
				}
				first.Leave()
				time.Sleep(later)
				p := l.Join("key", 1, 0)
				p.turn(t)
				p.Limited(0)
				_, took := p.turn(t)
				requirePause(t, 200*ms, took, "something had come back each 200 ms")
			})
		})
	}
}

// What comes back after everybody has left is learned, too.
func TestReleasesOfLinesThatAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		leaveEach(l, "key", 1)
		l.Released("key0", 8*time.Second) // counts as a second, of which a mean learns an eighth
		p := l.Join("key0", 1, 0)
		p.turn(t)
		p.Limited(0)
		_, took := p.turn(t)
		requirePause(t, 125*ms, took, "something had come back once, after 8 s")
	})
}
