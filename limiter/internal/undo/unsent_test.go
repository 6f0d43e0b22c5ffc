// What this process could not send is sent later. A refund of tokens that may have been sent is not
// repeated.

package undo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

func TestRefundsThatWereNotSent(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		err    error
		lasts  time.Duration // for how long sends end in err
		within time.Duration // the time for Drain
		asked  []time.Duration
		left   int
	}{
		{"no connection for 1 s", errNoConnection, time.Second, time.Hour,
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}, 0},
		{"no connection while Drain waits", errNoConnection, time.Second, 500 * ms,
			[]time.Duration{0, 100 * ms, 300 * ms}, 1},
		{"no connection for good", errNoConnection, time.Hour, time.Hour,
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 12_700 * ms, 25_500 * ms, 51_100 * ms}, 0},
		{"an open breaker for 1 s", backend.Classify(backend.ErrNotAsked, errNoAnswer), time.Second, time.Hour,
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}, 0},
		{"the client is closed", errClosed, time.Hour, time.Hour, []time.Duration{0}, 0},
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
			took := &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{funnelRow("a:f", 2)}}
			d.Undo.Undo(t.Context(), took, &reply)
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
		d := newDesk(func(*backend.Call) (backend.Reply, error) { return backend.Reply{}, errNoConnection })
		began := time.Now()
		reply := backend.Reply{First: backend.RowReply{Source: backend.Module, Receipt: 41}}
		require.True(t, <-d.Undo.Undo(t.Context(),
			&backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{funnelRow("a:f", 2)}}, &reply))
		require.Equal(t, began, time.Now())
		time.Sleep(time.Hour)
	})
}

// A slot with a long TTL is asked back as soon as a connection may be free, not after a tenth of
// its TTL: this process may end before.
func TestSlotsThatWereNotSentBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		asked []string
	}{
		{"not sent", errNoConnection, []string{"0s a:s h", "100ms a:s h", "200ms a:s h", "400ms a:s h", "800ms a:s h", "1.6s a:s h"}},
		{"not answered", errNoAnswer, []string{"0s a:s h", "6m0s a:s h"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if time.Since(began) < time.Second {
					return backend.Reply{}, c.err
				}
				return replied(true)
			})
			refund := newRefund()
			refund.call.Rows = []backend.AskedRow{slotRow("a:s", "h")}
			refund.call.Rows[0].TTL = time.Hour
			_, err := d.GiveBack(t.Context(), &refund.call)
			require.Error(t, err, c.name)
			left, err := d.Drain(t.Context())
			require.NoError(t, err, c.name)
			require.Zero(t, left, c.name)
			require.Equal(t, c.asked, d.taken(), c.name)
		})
	}
}

// A shard that was removed from its ring is closed. Its slots are left to their TTL, and slots of
// other shards that wait in the same queue are asked back.
func TestSlotsOfARemovedShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := newDesk(func(c *backend.Call) (backend.Reply, error) {
			switch {
			case c.Rows[0].Shard != nil:
				return backend.Reply{}, errClosed
			case time.Since(began) < 5*time.Second:
				return backend.Reply{}, errNoAnswer
			}
			return replied(true)
		})
		d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:stays", "h")}}, false)
		removed := slotRow("a:removed", "h")
		removed.Shard = "a shard"
		refund := newRefund()
		refund.call.Rows = []backend.AskedRow{removed}
		_, err := d.GiveBack(t.Context(), &refund.call)
		require.ErrorIs(t, err, redis.ErrClosed)
		left, err := d.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		asked := d.taken()
		require.Equal(t, "5s a:stays h", asked[len(asked)-1], "%q", asked)
		require.Equal(t, 1, strings.Count(d.log.String(), "a slot was not given back: it ends with its TTL"), d.log.String())
		require.Contains(t, d.log.String(), "a:removed")
	})
}
