package servertest

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Two callers make ten calls a second for a second. The third call takes 500 ms: of its caller the
// calls that were due meanwhile begin late, and are measured from when they were due.
func TestPaceAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mutex sync.Mutex
		var due, late []time.Duration
		begin := time.Now()
		Pace(2, 10, time.Second, func(_ int, at time.Time) bool {
			mutex.Lock()
			due, late = append(due, at.Sub(begin)), append(late, time.Since(at))
			mutex.Unlock()
			if at.Sub(begin) == 200*time.Millisecond {
				time.Sleep(500 * time.Millisecond)
			}
			return true
		})
		slices.Sort(due)
		var even []time.Duration
		for i := range 10 {
			even = append(even, time.Duration(i)*100*time.Millisecond)
		}
		require.Equal(t, even, due)
		slices.Sort(late)
		require.Equal(t, []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}, late[8:],
			"calls due at 600 ms and 400 ms begin at 700 ms")
		require.Zero(t, late[7], "all others begin when they are due")
	})
}

// Without a rate, a caller whose calls take 100 ms makes ten in a second. A caller that returns
// false stops.
func TestPaceAsFastAsAnswersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [2]int
		Pace(2, 0, time.Second, func(caller int, due time.Time) bool {
			require.Zero(t, time.Since(due))
			calls[caller]++
			time.Sleep(100 * time.Millisecond)
			return caller == 0 || calls[caller] < 3
		})
		require.Equal(t, [2]int{10, 3}, calls)
	})
}
