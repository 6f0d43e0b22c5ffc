// How a call becomes commands to several nodes, and their replies one reply.

package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
	"funnel/limiter/internal/undo"
)

// A fleet answers commands by the hash tag of their first key, and records them.
type fleet struct {
	isSpread bool // commands with keys of several hash tags are answered too
	waits    map[string]time.Duration
	errs     map[string]error
	remains  int64

	mutex    sync.Mutex
	commands []string
	failures []string // the hash tags of commands that were not to be sent, as their Failure says
}

func (f *fleet) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	text, tag := redis.NameOf(c.Operation), hashTag(c.Rows[0].Key)
	for _, row := range c.Rows {
		text += " " + row.Key
	}
	f.commands = append(f.commands, text)
	if c.Failure != nil {
		f.failures = append(f.failures, tag)
	}
	if !f.isSpread && spansTags(c) {
		return backend.Reply{}, backend.Classify(backend.ErrCrossSlot, backend.Invalid(errors.New("CROSSSLOT")))
	}
	err := f.errs[tag]
	if err != nil {
		return backend.Reply{Sent: true}, err
	}
	wait, limits := f.waits[tag]
	reply := backend.Reply{Sent: true, Limited: limits}
	reply.Grow(len(c.Rows))
	for i := range c.Rows {
		row := backend.RowReply{Source: backend.Module, Limited: limits, Wait: wait, Remaining: f.remains}
		if !limits && c.Operation == call.Reserve {
			row.Receipt = 41
		}
		*reply.Row(i) = row
	}
	return reply, nil
}

func (*fleet) Reset(context.Context, string) error { return nil }

// nodes returns a backend over the fleet that never looks.
func (f *fleet) nodes(isSpread bool) *Nodes {
	began := time.Now()
	u := undo.New(f.Ask, func(string) string { return "" }, slog.New(slog.DiscardHandler))
	n := New(f, u, isSpread, func() time.Duration { return time.Since(began) }, time.Now)
	n.looks = 0
	return n
}

// funnels returns a call for tokens of funnels.
func funnels(operation call.Operation, keys ...string) *backend.Call {
	c := &backend.Call{Operation: operation, Receipt: gcra.NoReceipt}
	for _, key := range keys {
		row := funnelOf("a", 0)
		row.Key = key
		c.Rows = append(c.Rows, row)
	}
	return c
}

// describeRows tells of each row whether it is decided or why not, whether it limits, and the wait.
func describeRows(c *backend.Call, reply *backend.Reply) (rows []string) {
	for i := range c.Rows {
		row, word := reply.Row(i), "ok"
		switch {
		case row.Cause != nil:
			word = row.Cause.Error()
		case row.Source == "":
			word = "not decided"
		case row.Limited:
			word = fmt.Sprint("limited for ", row.Wait)
		}
		if row.Receipt != 0 {
			word += ", a receipt"
		}
		rows = append(rows, c.Rows[i].Key+" "+word)
	}
	return rows
}

func TestCallsOverNodes(t *testing.T) {
	const never = time.Duration(decision.Never)
	down, slow := backend.Unavailable(errors.New("no answer")), backend.Unavailable(errors.New("loading"))
	for name, c := range map[string]struct {
		call     *backend.Call
		waits    map[string]time.Duration
		errs     map[string]error
		commands []string // of each hash tag in their order
		rows     []string
		limited  bool
		is       []error // all errors that are in the error
	}{
		"one row": {call: funnels(call.Reserve, "{a}1"), commands: []string{"reserve {a}1"},
			rows: []string{"{a}1 ok, a receipt"}},
		"one hash tag": {call: funnels(call.Reserve, "{a}1", "{a}2"), commands: []string{"reserve {a}1 {a}2"},
			rows: []string{"{a}1 ok, a receipt", "{a}2 ok, a receipt"}},
		"two hash tags": {call: funnels(call.Reserve, "{b}1", "{a}2", "{b}3"),
			commands: []string{"reserve {a}2", "reserve {b}1 {b}3"},
			rows:     []string{"{b}1 ok, a receipt", "{a}2 ok, a receipt", "{b}3 ok, a receipt"}},
		"a charge without a node": {call: funnels(call.Charge, "{b}1", "{a}2"), errs: map[string]error{"b": down},
			commands: []string{"charge {a}2", "charge {b}1"},
			rows:     []string{"{b}1 no answer", "{a}2 ok"}, is: []error{down}},
		"a charge without any": {call: funnels(call.Charge, "{b}1", "{a}2"), errs: map[string]error{"a": slow, "b": down},
			commands: []string{"charge {a}2", "charge {b}1"},
			rows:     []string{"{b}1 no answer", "{a}2 loading"}, is: []error{down, slow}},
		"a peek that one limits": {call: funnels(call.Peek, "{b}1", "{a}2"), waits: map[string]time.Duration{"b": time.Hour},
			commands: []string{"peek {a}2", "peek {b}1"}, limited: true,
			rows: []string{"{b}1 limited for 1h0m0s", "{a}2 ok"}},
		"one limits: the other gives back, and all are asked once more": {
			call: funnels(call.Reserve, "{b}1", "{a}2"), waits: map[string]time.Duration{"b": time.Hour}, limited: true,
			commands: []string{"refund {a}2", "refund {a}2", "reserve {a}2", "reserve {a}2", "reserve {b}1", "reserve {b}1"},
			rows:     []string{"{b}1 limited for 1s", "{a}2 ok"}},
		"one limits for less than a second": {
			call: funnels(call.Reserve, "{b}1", "{a}2"), waits: map[string]time.Duration{"b": time.Second - 1}, limited: true,
			commands: []string{"refund {a}2", "refund {a}2", "reserve {a}2", "reserve {a}2", "reserve {b}1", "reserve {b}1"},
			rows:     []string{"{b}1 limited for 999.999999ms", "{a}2 ok"}},
		"one limits for ever: nobody asks again": {
			call: funnels(call.Reserve, "{b}1", "{a}2"), waits: map[string]time.Duration{"b": never}, limited: true,
			commands: []string{"refund {a}2", "reserve {a}2", "reserve {b}1"},
			rows:     []string{"{b}1 limited for -1ns", "{a}2 ok"}},
		"both limit: nobody gives back": {
			call: funnels(call.Reserve, "{b}1", "{a}2"), limited: true,
			waits:    map[string]time.Duration{"a": time.Millisecond, "b": time.Second},
			commands: []string{"reserve {a}2", "reserve {b}1"},
			rows:     []string{"{b}1 limited for 1s", "{a}2 limited for 1ms"}},
		"one fails: the other gives back": {
			call: funnels(call.Reserve, "{b}1", "{a}2"), errs: map[string]error{"b": down},
			commands: []string{"refund {a}2", "reserve {a}2", "reserve {b}1"},
			rows:     []string{"{b}1 no answer", "{a}2 not decided"}, is: []error{down}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{waits: c.waits, errs: c.errs}
			reply, err := f.nodes(true).Ask(t.Context(), c.call)
			time.Sleep(time.Minute)
			slices.Sort(f.commands)
			state := fmt.Sprintf("%s: %+v, %v\ncommands: %q", name, reply, err, f.commands)
			require.Equal(t, c.commands, f.commands, state)
			require.Equal(t, c.rows, describeRows(c.call, &reply), state)
			require.Equal(t, c.limited, reply.Limited, state)
			require.True(t, reply.Sent, state)
			require.Equal(t, len(c.is) > 0, err != nil, state)
			for _, is := range c.is {
				require.ErrorIs(t, err, is, state)
			}
		})
	}
}

// A client that does not know its nodes learns from CROSSSLOT that there are several, and from then
// on sends a command for each hash tag.
func TestNodesAreLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		n := f.nodes(false)
		for _, want := range [][]string{
			{"charge {a}1 {b}2", "charge {a}1", "charge {b}2"}, {"charge {a}1", "charge {b}2"},
		} {
			f.commands = nil
			_, err := n.Ask(t.Context(), funnels(call.Charge, "{a}1", "{b}2"))
			require.NoError(t, err)
			require.ElementsMatch(t, want, f.commands)
		}
		one := &fleet{isSpread: true}
		_, err := one.nodes(false).Ask(t.Context(), funnels(call.Charge, "{a}1", "{b}2"))
		require.NoError(t, err)
		require.Equal(t, []string{"charge {a}1 {b}2"}, one.commands, "a server that has all keys")
	})
}

// What callers in one line know of a failure concerns the nodes of their slots alone.
func TestFailuresConcernTheNodesOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := funnels(call.Reserve, "{a}1", "{b}2")
		c.Failure = errors.New("no answer")
		c.Rows = append(c.Rows, slotOf("b", 0))
		_, err := f.nodes(true).Ask(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, f.failures)
	})
}

// A part that has just limited such a call is asked first, and the others are only peeked at, so
// that their rows show what remains. If the part limits until the same instant as before, nobody
// gave back meanwhile: its wait is told as it is. If it allows, the others are asked, too.
func TestPartsThatHaveLimitedAreAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{waits: map[string]time.Duration{"b": time.Hour}, errs: map[string]error{}, remains: 7}
		n := f.nodes(true)
		c := funnels(call.Reserve, "{b}1", "{a}2")
		for _, step := range []struct {
			name     string
			change   func()
			commands []string
			rows     []string
			remains  int64 // of {a}2
		}{
			{"limited for the first time", func() {},
				[]string{"refund {a}2", "refund {a}2", "reserve {a}2", "reserve {a}2", "reserve {b}1", "reserve {b}1"},
				[]string{"{b}1 limited for 1s", "{a}2 ok"}, 7},
			{"until the same instant", func() { f.remains = 6 },
				[]string{"peek {a}2", "reserve {b}1"}, []string{"{b}1 limited for 1h0m0s", "{a}2 ok"}, 6},
			{"the other node is down", func() { f.errs["a"] = errors.New("no answer") },
				[]string{"peek {a}2", "reserve {b}1"}, []string{"{b}1 limited for 1h0m0s", "{a}2 no answer"}, 6},
			{"until a later instant", func() { delete(f.errs, "a"); f.waits["b"] = 2 * time.Hour },
				[]string{"peek {a}2", "reserve {b}1"}, []string{"{b}1 limited for 1s", "{a}2 ok"}, 6},
			{"it allows", func() { delete(f.waits, "b") },
				[]string{"peek {a}2", "reserve {a}2", "reserve {b}1"}, []string{"{b}1 ok, a receipt", "{a}2 ok, a receipt"}, 6},
			{"and again", func() {},
				[]string{"reserve {a}2", "reserve {b}1"}, []string{"{b}1 ok, a receipt", "{a}2 ok, a receipt"}, 6},
		} {
			step.change()
			f.commands = nil
			reply, err := n.Ask(t.Context(), c)
			require.NoError(t, err, step.name)
			slices.Sort(f.commands)
			state := fmt.Sprintf("%s: %+v\ncommands: %q", step.name, reply, f.commands)
			require.Equal(t, step.commands, f.commands, state)
			require.Equal(t, step.rows, describeRows(c, &reply), state)
			if f.errs["a"] == nil {
				require.Equal(t, step.remains, reply.Row(1).Remaining, state)
			}
		}
	})
}

// A caller that is told to wait for long looks soon after, while it holds nothing. If the part has
// room by then, it asks once more.
func TestCallersLookAgain(t *testing.T) {
	for name, c := range map[string]struct {
		wait     time.Duration
		frees    time.Duration // when the part has room
		commands []string      // after the first two rounds
		rows     []string
	}{
		"it has room at once": {time.Hour, time.Millisecond, []string{"peek {b}1", "reserve {a}2", "reserve {b}1"},
			[]string{"{b}1 ok, a receipt", "{a}2 ok, a receipt"}},
		"it has room too late": {time.Hour, time.Minute, []string{"peek {b}1", "peek {b}1"},
			[]string{"{b}1 limited for 1s", "{a}2 ok"}},
		"the wait is a second": {time.Second, time.Millisecond, []string{}, []string{"{b}1 limited for 1s", "{a}2 ok"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{waits: map[string]time.Duration{"b": c.wait}}
			n := f.nodes(true)
			n.looks = maxLooks
			time.AfterFunc(c.frees, func() {
				f.mutex.Lock()
				defer f.mutex.Unlock()
				delete(f.waits, "b")
			})
			asked := funnels(call.Reserve, "{b}1", "{a}2")
			reply, err := n.Ask(t.Context(), asked)
			require.NoError(t, err, name)
			state := fmt.Sprintf("%s: %+v\ncommands: %q", name, reply, f.commands)
			const rounds = 6 // commands: both rounds ask both parts, and one gives back
			require.Equal(t, c.commands, slices.Clone(f.commands[min(rounds, len(f.commands)):]), state)
			require.Equal(t, c.rows, describeRows(asked, &reply), state)
			time.Sleep(time.Hour)
		})
	}
}
