// What a call took is given back by its receipt or its holder, and nothing else. Slots are asked
// back until Redis has answered.

package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
)

// A desk is where refunds arrive: it answers each by a function.
type desk struct {
	*Undo
	answer func(c *backend.Call) (backend.Reply, error)
	log    bytes.Buffer

	mutex sync.Mutex
	asked []string // what refunds ask for, and when
	began time.Time
}

func newDesk(answer func(c *backend.Call) (backend.Reply, error)) *desk {
	d := &desk{answer: answer, began: time.Now()}
	node := func(key string) string { node, _, _ := strings.Cut(key, ":"); return node }
	d.Undo = New(d.ask, node, slog.New(slog.NewTextHandler(&d.log, nil)))
	return d
}

func (d *desk) ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	words := []string{time.Since(d.began).String()}
	for _, row := range c.Rows {
		words = append(words, row.Key)
		switch row.Kind {
		case call.Slots:
			words = append(words, row.Holder)
		case call.Quota:
			words = append(words, fmt.Sprint(row.Quantity, " until ", row.Quota.EndAt(time.Now())))
		default:
			words = append(words, fmt.Sprint(row.Quantity, " by ", c.Receipt))
			tokens, err := row.Words.Rate.Request(int64(row.Quantity))
			if err != nil || row.Tokens != tokens {
				words = append(words, "but its Tokens are of another quantity")
			}
		}
		if row.IsLocal {
			words = append(words, "here")
		}
	}
	d.mutex.Lock()
	d.asked = append(d.asked, strings.Join(words, " "))
	d.mutex.Unlock()
	return d.answer(c)
}

// taken returns what the desk was asked since the last time.
func (d *desk) taken() (asked []string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	asked, d.asked = d.asked, nil
	return asked
}

// replied returns a reply of Redis to a refund.
func replied(held bool) (backend.Reply, error) {
	return backend.Reply{First: backend.RowReply{Source: backend.Module, Held: held, Remaining: 7}}, nil
}

// always gives the same answer at once, and slowly after two seconds.
func always(reply backend.Reply, err error) func(time.Duration) (backend.Reply, error) {
	return func(time.Duration) (backend.Reply, error) { return reply, err }
}

func slowly(reply backend.Reply, err error) func(time.Duration) (backend.Reply, error) {
	return func(time.Duration) (backend.Reply, error) {
		time.Sleep(2 * time.Second)
		return reply, err
	}
}

var (
	errNoAnswer = backend.Unavailable(errors.New("no answer"))
	errLoading  = backend.Unavailable(replyError("LOADING"))

	errNoConnection = backend.Unavailable(backend.NotSentHere(redis.ErrPoolTimeout))
	errClosed       = backend.Unavailable(backend.NotSentHere(redis.ErrClosed))
)

// A replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func slotRow(key, holder string) backend.AskedRow {
	return backend.AskedRow{Key: key, Kind: call.Slots, TTL: 10 * time.Second, Holder: holder}
}

func funnelRow(key string, quantity int) backend.AskedRow {
	rate, err := gcra.NewRate(100, 1, int64(time.Second))
	if err != nil {
		panic(err)
	}
	tokens, err := rate.Request(int64(quantity))
	if err != nil {
		panic(err)
	}
	return backend.AskedRow{Key: key, Tokens: tokens, Quantity: quantity, Words: &backend.Words{Rate: rate}}
}

func quotaRow(key string, quantity int) backend.AskedRow {
	return backend.AskedRow{Key: key, Kind: call.Quota, Quantity: quantity,
		Quota: backend.QuotaLimit{Limit: 100, Calendar: calendar.Days(time.UTC)}}
}

// Each row of tokens is a refund of its own, by its receipt; all slots are one refund.
func TestWhatIsGivenBack(t *testing.T) {
	rows := []backend.AskedRow{slotRow("a:s", "h"), funnelRow("a:f", 3), quotaRow("a:q", 4), slotRow("a:t", "h")}
	took := func(source string) backend.Reply {
		return backend.Reply{First: backend.RowReply{Source: source}, Others: []backend.RowReply{
			{Source: source, Receipt: 41}, {Source: source, Receipt: 42e9}, {Source: source}}}
	}
	limited := took(backend.Module)
	limited.Limited = true
	for name, c := range map[string]struct {
		call  backend.Call
		reply backend.Reply
		want  []string
	}{
		"by Redis": {backend.Call{Operation: call.Reserve, Rows: rows}, took(backend.Module),
			[]string{"0s a:f 3 by 41", "0s a:q 4 until 42000000000", "0s a:s h a:t h"}},
		"by this process": {backend.Call{Operation: call.Reserve, Rows: rows}, took(backend.Local),
			[]string{"0s a:f 3 by 41 here", "0s a:q 4 until 42000000000 here", "0s a:s h here a:t h here"}},
		"by FailOpen":   {backend.Call{Operation: call.Reserve, Rows: rows}, took(backend.Open), nil},
		"by FailClosed": {backend.Call{Operation: call.Reserve, Rows: rows}, took(backend.Closed), nil},
		"not decided":   {backend.Call{Operation: call.Reserve, Rows: rows}, took(""), nil},
		"limited":       {backend.Call{Operation: call.Reserve, Rows: rows}, limited, nil},
		"a charge":      {backend.Call{Operation: call.Charge, Rows: rows}, took(backend.Module), nil},
		"for later": {backend.Call{Operation: call.Reserve, Rows: rows[1:2], MaxWait: 1},
			backend.Reply{First: took(backend.Module).Others[0]}, nil},
		"for no tokens": {backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{funnelRow("a:f", 0)}},
			backend.Reply{First: backend.RowReply{Source: backend.Module}}, nil},
		"as much as fits": {backend.Call{Operation: call.Take, Rows: rows[1:2]},
			backend.Reply{Limited: true, First: backend.RowReply{Source: backend.Module, Limited: true, Taken: 2, Receipt: 41}},
			[]string{"0s a:f 2 by 41"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(*backend.Call) (backend.Reply, error) { return replied(true) })
			require.True(t, <-d.Undo.Undo(t.Context(), &c.call, &c.reply), name)
			require.ElementsMatch(t, c.want, d.taken(), name)
			for i := range c.call.Rows {
				if c.want != nil && c.reply.Row(i).Source != "" {
					require.Zero(t, c.reply.Row(i).Receipt, "%s: row %d", name, i)
					require.Zero(t, c.reply.Row(i).Taken, "%s: row %d", name, i)
				}
			}
			if c.want != nil {
				require.EqualValues(t, 7, c.reply.First.Remaining, "%s: what remains after the refund", name)
			}
		})
	}
}

// When a slot is asked back that a call may have taken. The TTL is 10 s.
func TestSlotsAreAskedBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		ended   bool // the call has ended: an error reply came
		answers func(after time.Duration) (backend.Reply, error)
		last    time.Duration // when it was asked for the last time
		times   int
		log     string
	}{
		{"it was held", false, always(replied(true)), 0, 1, ""},
		{"it is not held, but may be later", false, always(replied(false)), 10 * time.Second, 11, ""},
		{"it is held after 3 s", false,
			func(after time.Duration) (backend.Reply, error) { return replied(after >= 3*time.Second) },
			3 * time.Second, 4, ""},
		{"no answer for 25 s", false, func(after time.Duration) (backend.Reply, error) {
			if after < 25*time.Second {
				return backend.Reply{}, errNoAnswer
			}
			return replied(false)
		}, 35 * time.Second, 36, ""},
		{"an error reply is an answer", false, always(backend.Reply{}, errLoading),
			10 * time.Second, 11, "a slot was not given back: it ends with its TTL"},
		{"the call has ended, and took nothing", true, always(replied(false)), 0, 1, ""},
		{"the call has ended, and Redis is down", true, always(backend.Reply{}, errNoAnswer),
			10 * time.Second, 11, "a slot was not given back: it ends with its TTL"},
		{"the key holds something else", false, func(time.Duration) (backend.Reply, error) {
			return backend.Reply{}, backend.Invalid(replyError("WRONGTYPE"))
		}, 10 * time.Second, 11, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			d := newDesk(func(*backend.Call) (backend.Reply, error) { return c.answers(time.Since(began)) })
			d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{slotRow("a:s", "h")}}, c.ended)
			time.Sleep(time.Minute)
			synctest.Wait()
			asked := d.taken()
			require.Len(t, asked, c.times, "%s: %q", c.name, asked)
			require.Equal(t, fmt.Sprint(c.last, " a:s h"), asked[len(asked)-1], c.name)
			require.Equal(t, c.log != "", strings.Count(d.log.String(), "\n") == 1 && strings.Contains(d.log.String(), c.log),
				"%s: %s", c.name, d.log.String())
			require.Empty(t, d.queues, "%s: nothing is kept", c.name)
			left, err := d.Drain(t.Context())
			require.NoError(t, err, c.name)
			require.Zero(t, left, "%s: calls that are still under way", c.name)
		})
	}
}

// A slot that nobody answers about is asked back for an hour, and the log says when that is over.
// Slots with a short TTL are asked back each 100 ms, so that a dead server gets few connections.
func TestSlotsThatNobodyAnswersAbout(t *testing.T) {
	for _, c := range []struct {
		ttl   time.Duration
		times int
	}{
		{ttl: 10 * time.Second, times: 3600 + 1},
		{ttl: time.Second, times: 36_000 + 1},
		{ttl: time.Millisecond, times: 36_000 + 1},
		{ttl: 5 * time.Hour, times: 10 + 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(*backend.Call) (backend.Reply, error) { return backend.Reply{}, errNoAnswer })
			row := slotRow("a:s", "h")
			row.TTL = c.ttl
			d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{row}}, false)
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			asked := d.taken()
			require.Len(t, asked, c.times, "a TTL of %v: the last was %q", c.ttl, asked[len(asked)-1])
			require.Equal(t, fmt.Sprint(max(time.Hour, c.ttl), " a:s h"), asked[len(asked)-1])
			require.Contains(t, d.log.String(), "a slot was not given back: it ends with its TTL", "a TTL of %v", c.ttl)
			require.Equal(t, 1, strings.Count(d.log.String(), "\n"), "a TTL of %v: %s", c.ttl, d.log.String())
			require.Empty(t, d.queues, "nothing is kept")
		})
	}
}

// Undo tells whether the holder may take its slot again: not while a refund waits in the queue.
func TestUndoTellsWhetherSlotsAreBack(t *testing.T) {
	for name, c := range map[string]struct {
		row     backend.AskedRow
		err     error
		decided bool
	}{
		"a slot, answered":        {slotRow("a:s", "h"), nil, true},
		"a slot, not answered":    {slotRow("a:s", "h"), errNoAnswer, false},
		"a slot, an error reply":  {slotRow("a:s", "h"), errLoading, false},
		"a slot, of a wrong call": {slotRow("a:s", "h"), backend.Invalid(replyError("WRONGTYPE")), true},
		"tokens, not answered":    {funnelRow("a:f", 1), errNoAnswer, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if c.err != nil {
					return backend.Reply{}, c.err
				}
				return replied(true)
			})
			reply := backend.Reply{First: backend.RowReply{Source: backend.Module, Receipt: 41}}
			decided := <-d.Undo.Undo(t.Context(),
				&backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{c.row}}, &reply)
			require.Equal(t, c.decided, decided, name)
			time.Sleep(time.Minute)
		})
	}
}

// Slots of one node are asked back when each is due, whichever was added first; and no more often
// than each millisecond, whatever the TTL. None of them is held, and each may be taken later.
func TestSlotsAreAskedBackWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(*backend.Call) (backend.Reply, error) { return replied(false) })
		lose := func(key string, ttl time.Duration) {
			row := slotRow(key, "h")
			row.TTL = ttl
			d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{row}}, false)
		}
		lose("a:slow", 30*time.Second)
		time.Sleep(2500 * time.Millisecond)
		lose("a:fast", 5*time.Second)
		lose("a:shortest", time.Millisecond)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"0s a:slow h", "2.5s a:fast h", "2.5s a:shortest h", "2.501s a:shortest h", "3s a:fast h",
			"3s a:slow h", "3.5s a:fast h", "4s a:fast h", "4.5s a:fast h"}, d.taken())
		time.Sleep(time.Minute)
	})
}

// A release that Redis has not decided is repeated each tenth of the TTL, and no longer than the
// TTL. A refund of tokens that was sent is not repeated.
func TestGiveBackGoesOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   backend.AskedRow
		downs time.Duration // for how long Redis does not answer
		times int
	}{
		{"a slot, at once", slotRow("a:s", "h"), 0, 1},
		{"a slot, after 2.5 s", slotRow("a:s", "h"), 2500 * time.Millisecond, 4},
		{"a slot, never", slotRow("a:s", "h"), time.Hour, 11},
		{"tokens", funnelRow("a:f", 1), time.Hour, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			d := newDesk(func(*backend.Call) (backend.Reply, error) {
				if time.Since(began) < c.downs {
					return backend.Reply{}, errNoAnswer
				}
				return replied(true)
			})
			refund := newRefund()
			refund.call.Rows = []backend.AskedRow{c.row}
			_, err := d.GiveBack(t.Context(), &refund.call)
			require.Equal(t, c.downs > 0, err != nil, c.name)
			time.Sleep(time.Minute)
			asked := d.taken()
			require.Len(t, asked, c.times, "%s: %q", c.name, asked)
		})
	}
}

// A node that hangs delays its own slots alone.
func TestEachNodeHasAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(c *backend.Call) (backend.Reply, error) {
			if strings.HasPrefix(c.Rows[0].Key, "hangs:") {
				time.Sleep(time.Second)
				return backend.Reply{}, errNoAnswer
			}
			return replied(true)
		})
		for i := range 50 {
			for _, node := range []string{"hangs", "works"} {
				row := slotRow(fmt.Sprint(node, ":", i), "h")
				d.Lost(t.Context(), &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{row}}, true)
			}
		}
		time.Sleep(time.Millisecond)
		works := 0
		for _, asked := range d.taken() {
			if strings.Contains(asked, "works:") {
				works++
			}
		}
		require.Equal(t, 50, works, "all slots of the node that works")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, d.queues)
	})
}
