// Drain waits for what goes on in the background, and tells what is uncertain in the end.

package undo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// Drain waits until everything has been answered once, and tells what is uncertain even then.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name    string
		begin   func(t *testing.T, d *desk)
		answers func(after time.Duration) (backend.Reply, error)
		within  time.Duration
		after   time.Duration // when Drain returns
		left    int
	}{
		{"nothing", func(*testing.T, *desk) {}, nil, time.Minute, 0, 0},
		{"a refund under way", func(t *testing.T, d *desk) {
			go func() {
				_, _ = d.GiveBack(t.Context(), &backend.Call{Operation: call.Refund, Rows: []backend.AskedRow{slotRow("a:s", "h")}})
			}()
			synctest.Wait()
		}, slowly(replied(true)), time.Minute, 2 * time.Second, 0},
		{"a call whose caller has left, and then its refund", func(t *testing.T, d *desk) {
			c := &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}}
			late := d.Leave(t.Context(), c)
			reply := &backend.Reply{First: backend.RowReply{Source: backend.Module}}
			time.AfterFunc(3*time.Second, func() { late.Decided(reply) })
		}, slowly(replied(true)), time.Minute, 5 * time.Second, 0},
		{"a lost slot, which may be taken later", func(t *testing.T, d *desk) {
			d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}}, false)
		}, always(replied(false)), time.Minute, 0, 1},
		{"a release without an answer, and its second attempt", func(t *testing.T, d *desk) {
			d.Go(t.Context(), func(ctx context.Context) {
				_, _ = d.GiveBack(ctx, &backend.Call{Operation: call.Refund, Rows: []backend.AskedRow{slotRow("a:s", "h")}})
			})
		}, func(after time.Duration) (backend.Reply, error) {
			if after < time.Second {
				return backend.Reply{}, errNoAnswer
			}
			return replied(true)
		}, time.Minute, time.Second, 0},
		{"a call whose caller has left, and that took nothing", func(t *testing.T, d *desk) {
			late := d.Leave(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}})
			time.AfterFunc(3*time.Second, late.TookNothing)
		}, nil, time.Minute, 3 * time.Second, 0},
		{"a call whose caller has left, and whose answer is lost", func(t *testing.T, d *desk) {
			late := d.Leave(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}})
			time.AfterFunc(3*time.Second, func() { late.Lost(true) })
		}, slowly(replied(true)), time.Minute, 5 * time.Second, 0},
		{"a call whose caller has left, without an answer in time", func(t *testing.T, d *desk) {
			late := d.Leave(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}})
			time.AfterFunc(30*time.Second, late.TookNothing)
		}, nil, 5 * time.Second, 5 * time.Second, 1},
		{"no answer in time", func(t *testing.T, d *desk) {
			d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}}, true)
		}, always(backend.Reply{}, errNoAnswer), 5 * time.Second, 5 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			d := newDesk(func(*backend.Call) (backend.Reply, error) { return c.answers(time.Since(began)) })
			c.begin(t, d)
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			left, err := d.Drain(ctx)
			require.Equal(t, c.left, left, c.name)
			require.Equal(t, c.after, time.Since(began), c.name)
			require.Equal(t, c.after == c.within, err != nil, "%s: %v", c.name, err)
			time.Sleep(time.Minute)
		})
	}
}

// What begins after Drain was called does not count.
func TestDrainDoesNotWaitForWhatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(nil)
		d.Go(t.Context(), func(context.Context) { time.Sleep(time.Second) })
		time.AfterFunc(time.Second/2, func() {
			d.Go(t.Context(), func(context.Context) { time.Sleep(time.Hour) })
		})
		began := time.Now()
		left, err := d.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Equal(t, time.Second, time.Since(began), "when the first task has ended")
		time.Sleep(2 * time.Hour)
	})
}

// Each Limiter has tasks of its own, even if a task of one begins a task of another.
func TestTasksOfTwoLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newDesk(nil), newDesk(nil)
		outer.Go(t.Context(), func(ctx context.Context) {
			inner.Go(ctx, func(context.Context) { time.Sleep(time.Minute) })
			time.Sleep(time.Second)
		})
		synctest.Wait()
		for _, c := range []struct {
			name  string
			desk  *desk
			after time.Duration
		}{
			{name: "outer", desk: outer, after: time.Second},
			{name: "inner", desk: inner, after: time.Minute - time.Second},
		} {
			began := time.Now()
			left, err := c.desk.Drain(t.Context())
			require.NoError(t, err, c.name)
			require.Zero(t, left, c.name)
			require.Equal(t, c.after, time.Since(began), c.name)
		}
	})
}

// A Drain whose context is done already still tells what is under way.
func TestDrainThatCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d := newDesk(nil)
		left, err := d.Drain(ctx)
		require.NoError(t, err, "nothing is under way")
		require.Zero(t, left, "nothing is under way")
		d.Go(t.Context(), func(context.Context) { time.Sleep(time.Second) })
		left, err = d.Drain(ctx)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, 1, left)
		time.Sleep(time.Minute)
	})
}
