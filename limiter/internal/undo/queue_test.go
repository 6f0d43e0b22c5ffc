// How many slots a queue has room for, and what happens to the others.

package undo

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// loseSlots loses that many slots of one node.
func (d *desk) loseSlots(t *testing.T, slots int, ended bool) {
	for i := range slots {
		row := slotRow(fmt.Sprint("a:", i), "h")
		d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{row}}, ended)
	}
}

// A queue has room for a bounded number of slots. The others end with their TTL, and the log counts
// them once there is room again. Until then, Drain counts them as uncertain.
func TestQueueIsBounded(t *testing.T) {
	for _, tooMany := range []int{1, 17} {
		synctest.Test(t, func(t *testing.T) {
			var works atomic.Bool
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if works.Load() {
					return replied(true)
				}
				return backend.Reply{}, errNoAnswer
			})
			d.loseSlots(t, maxEntries+tooMany, false)
			time.Sleep(2500 * time.Millisecond)
			synctest.Wait()
			require.Empty(t, d.log.String(), "the queue is still full")
			require.Equal(t, maxEntries+tooMany, d.uncertain(map[uint64]bool{}), "slots that are uncertain")
			d.taken()
			works.Store(true)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, d.taken(), maxEntries)
			require.Contains(t, d.log.String(), fmt.Sprint("slots=", tooMany, "\n"))
			require.Equal(t, 1, strings.Count(d.log.String(), "\n"), d.log.String())
		})
	}
}

// A client that is closed stays closed: its slots are left to their TTL, with one line in the log.
func TestClosedClient(t *testing.T) {
	for _, slots := range []int{100, maxEntries + 3} {
		synctest.Test(t, func(t *testing.T) {
			var isClosed atomic.Bool
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if isClosed.Load() {
					return backend.Reply{}, backend.Unavailable(redis.ErrClosed)
				}
				return backend.Reply{}, errNoAnswer
			})
			d.loseSlots(t, slots, false)
			time.Sleep(2500 * time.Millisecond)
			isClosed.Store(true)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, 1, strings.Count(d.log.String(), "\n"), d.log.String())
			require.Contains(t, d.log.String(), fmt.Sprint("slots=", slots, " "))
			require.Empty(t, d.queues, "no goroutine goes on")
			left, err := d.Drain(t.Context())
			require.NoError(t, err)
			require.Zero(t, left)
		})
	}
}
