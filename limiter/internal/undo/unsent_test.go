// A refund of tokens that this process could not send is sent later; one that may have been sent is
// not repeated.

package undo

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

func TestRefundsThatWereNotSent(t *testing.T) {
	noConnection := backend.Classify(backend.ErrNotSent, backend.Unavailable(redis.ErrPoolTimeout))
	closed := backend.Classify(backend.ErrNotSent, backend.Unavailable(redis.ErrClosed))
	for _, c := range []struct {
		name   string
		err    error
		lasts  time.Duration // for how long sends end in err
		within time.Duration // the time for Drain
		asked  []time.Duration
		left   int
	}{
		{"no connection for 1 s", noConnection, time.Second, time.Hour,
			[]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond}, 0},
		{"no connection while Drain waits", noConnection, time.Second, 500 * time.Millisecond,
			[]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}, 1},
		{"no connection for good", noConnection, time.Hour, time.Hour,
			[]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond,
				3100 * time.Millisecond, 6300 * time.Millisecond, 12_700 * time.Millisecond, 25_500 * time.Millisecond,
				51_100 * time.Millisecond}, 0},
		{"the client is closed", closed, time.Hour, time.Hour, []time.Duration{0}, 0},
		{"it was sent, and no answer came", errNoAnswer, time.Hour, time.Hour, []time.Duration{0}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if time.Since(began) < c.lasts {
					return backend.Reply{}, c.err
				}
				return replied(false)
			})
			reply := backend.Reply{First: backend.RowReply{Source: backend.Module, Receipt: 41}}
			d.Undo.Undo(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{funnelRow("a:f", 2)}}, &reply)
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			left, _ := d.Drain(ctx)
			require.Equal(t, c.left, left, "%s: how much is uncertain", c.name)
			var want []string
			for _, after := range c.asked {
				want = append(want, fmt.Sprint(after, " a:f 2 by 41"))
			}
			require.Equal(t, want, d.taken(), c.name)
			time.Sleep(time.Hour) // what goes on ends with the bubble
		})
	}
}

// A caller that undoes part of a call waits for the first send alone.
func TestUndoDoesNotWaitUntilARefundIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := backend.Classify(backend.ErrNotSent, backend.Unavailable(errors.New("the queue is full")))
		d := newDesk(func(*backend.Call) (backend.Reply, error) { return backend.Reply{}, full })
		began := time.Now()
		reply := backend.Reply{First: backend.RowReply{Source: backend.Module, Receipt: 41}}
		require.True(t, <-d.Undo.Undo(t.Context(),
			&backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{funnelRow("a:f", 2)}}, &reply))
		require.Equal(t, began, time.Now())
		time.Sleep(time.Hour)
	})
}
