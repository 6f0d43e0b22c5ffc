// Who decides a call that Redis does not decide, and what the log says about it.

package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/internal/servertest"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
	"funnel/slots"
)

// A fixed backend gives the same answer to each call.
type fixed struct {
	source string
	err    error
	asked  *[]string // the sources that were asked, in order
}

func (b fixed) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	*b.asked = append(*b.asked, b.source)
	if b.err != nil {
		return backend.Reply{}, b.err
	}
	reply := backend.Reply{}
	reply.Grow(len(c.Rows))
	for i := range c.Rows {
		reply.Row(i).Source = b.source
	}
	return reply, nil
}

func (b fixed) Reset(context.Context, string) error {
	*b.asked = append(*b.asked, "reset "+b.source)
	return b.err
}

// twoRows returns a call for tokens of two funnels.
func twoRows(change func(*backend.Call)) *backend.Call {
	c := &backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{{Key: "a"}, {Key: "b"}}}
	if change != nil {
		change(c)
	}
	return c
}

func TestWhoDecides(t *testing.T) {
	down := backend.Unavailable(errors.New("no answer"))
	wrong := backend.Invalid(errors.New("count must be at least 1"))
	refused := backend.Unavailable(servertest.ErrorReply("NOAUTH Authentication required."))
	const fallsBack, refuses = "rate limits fall back to policy open", "redis refuses this program"
	for name, c := range map[string]struct {
		change   func(*backend.Call)
		redis    error
		noPolicy bool
		gaveUp   bool
		asked    []string
		err      error // for the caller
		cause    error // of each row
		logged   string
	}{
		"Redis decides":     {asked: []string{"module"}},
		"Redis is down":     {redis: down, asked: []string{"module", "open"}, cause: down, logged: fallsBack},
		"no policy":         {redis: down, noPolicy: true, asked: []string{"module"}, err: down, cause: down},
		"the call is wrong": {redis: wrong, asked: []string{"module"}, err: wrong, cause: wrong},
		"a wrong password":  {redis: refused, asked: []string{"module", "open"}, cause: refused, logged: refuses},
		"a wrong password, and no policy": {
			redis: refused, noPolicy: true, asked: []string{"module"}, err: refused, cause: refused, logged: refuses},
		"the caller has given up": {
			redis: down, gaveUp: true, asked: []string{"module"}, err: down, cause: down},
		"the caller has given up, with a wrong password": {
			redis: refused, gaveUp: true, asked: []string{"module"}, err: refused, cause: refused},
		"a charge": {
			change: func(c *backend.Call) { c.Operation = call.Charge },
			redis:  down, asked: []string{"module", "open"}, cause: down, logged: fallsBack},
		"a refund": {
			change: func(c *backend.Call) { c.Operation = call.Refund },
			redis:  down, asked: []string{"module"}, err: down, cause: down},
		"a renewal": {
			change: func(c *backend.Call) { c.Renews = true },
			redis:  down, asked: []string{"module"}, err: down, cause: down},
		"a settlement": {
			change: func(c *backend.Call) { c.Settles = true },
			redis:  down, asked: []string{"module"}, err: down, cause: down},
		"an earlier caller in the line knows that Redis is down": {
			change: func(c *backend.Call) { c.Failure = down },
			asked:  []string{"open"}, cause: down, logged: fallsBack},
		"this process has granted it": {
			change: func(c *backend.Call) { c.Rows[0].IsLocal = true },
			redis:  down, asked: []string{"local"}},
	} {
		var asked []string
		var log bytes.Buffer
		var instead Decider = fixed{source: "open", asked: &asked}
		if c.noPolicy {
			instead = nil
		}
		f := NewFallback(fixed{source: "module", err: c.redis, asked: &asked}, fixed{source: "local", asked: &asked},
			instead, "open", slog.New(slog.NewTextHandler(&log, nil)), func() time.Duration { return 0 })
		ctx, giveUp := context.WithCancel(t.Context())
		if c.gaveUp {
			giveUp()
		}
		reply, err := f.Ask(ctx, twoRows(c.change))
		state := fmt.Sprintf("%s: asked %q: %+v, %v\nlog: %s", name, asked, reply, err, log.String())
		require.Equal(t, c.err, err, state)
		require.Equal(t, c.asked, asked, state)
		for i := range 2 {
			require.Equal(t, c.cause, reply.Row(i).Cause, "row %d: %s", i, state)
			require.Equal(t, c.err == nil, reply.IsDecided(i), "row %d: %s", i, state)
		}
		require.Equal(t, c.logged == "", log.Len() == 0, state)
		require.Contains(t, log.String(), c.logged, state)
		giveUp()
	}
}

// A Fallback tells the log when Redis decides again.
func TestFallbackEndsAnOutage(t *testing.T) {
	var asked []string
	var log bytes.Buffer
	now := time.Duration(0)
	redis := &fixed{source: "module", err: backend.Unavailable(errors.New("no answer")), asked: &asked}
	f := NewFallback(redis, fixed{asked: &asked}, fixed{source: "open", asked: &asked}, "open",
		slog.New(slog.NewTextHandler(&log, nil)), func() time.Duration { return now })
	for _, step := range []struct {
		at    time.Duration
		err   error
		lines int
	}{
		{at: 0, err: redis.err, lines: 1},
		{at: time.Second, err: redis.err, lines: 1},
		{at: 2 * time.Second, lines: 1},
		{at: 11 * time.Second, lines: 2},
		{at: 12 * time.Second, lines: 2},
	} {
		now, redis.err = step.at, step.err
		_, err := f.Ask(t.Context(), twoRows(nil))
		require.NoError(t, err, "at %v", now)
		require.Equal(t, step.lines, strings.Count(log.String(), "\n"), "at %v: %s", now, log.String())
	}
}

// Reset deletes a key in this process and in Redis. If this process cannot, Redis is not asked.
func TestFallbackResets(t *testing.T) {
	down := errors.New("no answer")
	for _, c := range []struct {
		local, redis, want error
		asked              []string
	}{
		{asked: []string{"reset local", "reset module"}},
		{redis: down, want: down, asked: []string{"reset local", "reset module"}},
		{local: down, want: down, asked: []string{"reset local"}},
	} {
		var asked []string
		f := NewFallback(fixed{source: "module", err: c.redis, asked: &asked},
			fixed{source: "local", err: c.local, asked: &asked}, nil, "open", slog.New(slog.DiscardHandler), nil)
		require.Equal(t, c.want, f.Reset(t.Context(), "key"), "%+v", c)
		require.Equal(t, c.asked, asked, "%+v", c)
	}
}

// A failure begins an outage. Ten seconds without a failure end it, at the next call that Redis
// decides.
func TestOutageIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	var log bytes.Buffer
	o := outage{logger: slog.New(slog.NewTextHandler(&log, nil)), policy: "open"}
	const begins, ends = `level=WARN msg="redis unavailable: rate limits fall back to policy open" error=down`,
		`level=INFO msg="redis available: it decides rate limits again" `
	for _, step := range []struct {
		at    time.Duration
		fails bool
		want  string // the line, if there is one
	}{
		{at: time.Second, want: ""},
		{at: 2 * time.Second, fails: true, want: begins},
		{at: 3 * time.Second, fails: true, want: ""},
		{at: 13*time.Second - 1, want: ""},
		{at: 13 * time.Second, want: ends + "after=1s calls=2"},
		{at: 14 * time.Second, want: ""},
		{at: time.Minute, fails: true, want: begins},
		{at: time.Hour, want: ends + "after=0s calls=1"},
	} {
		log.Reset()
		if step.fails {
			o.failed(t.Context(), step.at, errors.New("down"))
		} else {
			o.decided(t.Context(), step.at)
		}
		_, line, _ := strings.Cut(strings.TrimSpace(log.String()), " ") // without the time
		require.Equal(t, step.want, line, "at %v, fails %v", step.at, step.fails)
		require.Equal(t, step.at >= 2*time.Second && step.at < 13*time.Second || step.at == time.Minute, o.begun.Load(),
			"an outage at %v", step.at)
	}
}

// A wrong configuration is logged once a minute, for as long as it lasts.
func TestMisconfigurationIsLoggedEachMinute(t *testing.T) {
	var log bytes.Buffer
	m := misconfiguration{logger: slog.New(slog.NewTextHandler(&log, nil))}
	wrong, down := servertest.ErrorReply("WRONGPASS invalid"), errors.New("no answer")
	for _, step := range []struct {
		at    time.Duration
		cause error
		is    bool
		logs  bool
	}{
		{at: 0, cause: down},
		{at: 0, cause: wrong, is: true, logs: true},
		{at: time.Minute - 1, cause: wrong, is: true},
		{at: time.Minute, cause: down},
		{at: time.Minute, cause: wrong, is: true, logs: true},
		{at: 2*time.Minute - 1, cause: wrong, is: true},
		{at: time.Hour, cause: wrong, is: true, logs: true},
	} {
		log.Reset()
		is := m.note(t.Context(), step.at, step.cause)
		require.Equal(t, step.is, is, "%v at %v", step.cause, step.at)
		isLogged := strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "WRONGPASS")
		require.Equal(t, step.logs, isLogged, "%v at %v: %s", step.cause, step.at, log.String())
	}
}

// policyRows are the rows that Open and Closed decide, at an instant: tokens of a funnel of 15 that
// drains in a minute, tokens of a quota of 3 a day, of a quota that has ended, and a slot.
func policyRows(t *testing.T) map[string]func(quantity int) backend.AskedRow {
	rate, err := gcra.NewRate(15, 15, int64(time.Minute))
	require.NoError(t, err)
	slot, err := slots.NewRequest(1, int64(time.Hour))
	require.NoError(t, err)
	quota := func(quantity int, periods calendar.Calendar) backend.AskedRow {
		return backend.AskedRow{Key: "quota", Kind: call.Quota, Quantity: quantity,
			Quota: backend.QuotaLimit{Limit: 3, Calendar: periods}}
	}
	return map[string]func(int) backend.AskedRow{
		"funnel": func(quantity int) backend.AskedRow {
			tokens, err := rate.Request(int64(quantity))
			require.NoError(t, err)
			return backend.AskedRow{Key: "funnel", Tokens: tokens, Quantity: quantity, Words: &backend.Words{Rate: rate}}
		},
		"quota": func(quantity int) backend.AskedRow { return quota(quantity, calendar.Days(time.UTC)) },
		"ended": func(quantity int) backend.AskedRow { return quota(quantity, calendar.Once(time.Unix(9, 0))) },
		"slot":  func(int) backend.AskedRow { return backend.AskedRow{Key: "slots", Kind: call.Slots, Slot: slot} },
	}
}

// Closed limits each call for a second, and for good if waiting does not help. Open allows each
// call that could ever fit.
func TestOpenAndClosed(t *testing.T) {
	const never, second = time.Duration(decision.Never), time.Second
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	wall := func() time.Time { return noon }
	rows := policyRows(t)
	for _, c := range []struct {
		operation      call.Operation
		row            string
		quantity       int
		closed, resets time.Duration // what Closed tells to wait, and after how long the row is reset
		opens          bool
		remaining      int64 // if Open allows the call
	}{
		{call.Reserve, "funnel", 1, second, time.Minute, true, 14},
		{call.Reserve, "funnel", 15, second, time.Minute, true, 0},
		{call.Reserve, "funnel", 16, never, time.Minute, false, 0},
		{call.Peek, "funnel", 16, never, time.Minute, false, 0},
		{call.Peek, "funnel", 15, second, time.Minute, true, 15},
		{call.Take, "funnel", 16, second, time.Minute, false, 0},
		{call.Charge, "funnel", 16, second, time.Minute, false, 0},
		{call.Charge, "funnel", 15, second, time.Minute, true, 0},
		{call.Reserve, "quota", 3, second, 12 * time.Hour, true, 0},
		{call.Reserve, "quota", 4, never, 12 * time.Hour, false, 0},
		{call.Charge, "quota", 3, second, 12 * time.Hour, true, 0},
		{call.Reserve, "ended", 1, never, 0, false, 0},
		{call.Charge, "ended", 1, never, 0, false, 0},
		{call.Reserve, "slot", 1, second, 0, true, 0},
	} {
		asked := &backend.Call{Operation: c.operation, Receipt: gcra.NoReceipt,
			Rows: []backend.AskedRow{rows[c.row](c.quantity), rows["slot"](1)}}
		if c.operation == call.Take {
			asked.Rows = asked.Rows[:1]
		}
		reply, err := Closed{Wall: wall}.Ask(t.Context(), asked)
		state := fmt.Sprintf("%v of %d of the %s: %+v, %v", c.operation, c.quantity, c.row, reply, err)
		require.NoError(t, err, state)
		require.True(t, reply.Limited && reply.Refused && reply.First.Limited, "Closed: %s", state)
		require.Equal(t, []any{backend.Closed, c.closed, c.resets},
			[]any{reply.First.Source, reply.First.Wait, reply.First.ResetAfter}, "Closed: %s", state)

		reply, err = Open{Wall: wall}.Ask(t.Context(), asked)
		state = fmt.Sprintf("%v of %d of the %s: %+v, %v", c.operation, c.quantity, c.row, reply, err)
		require.NoError(t, err, state)
		require.Equal(t, []any{backend.Open, c.opens}, []any{reply.First.Source, !reply.First.Limited}, "Open: %s", state)
		if c.opens {
			require.Equal(t, c.remaining, reply.First.Remaining, "Open: %s", state)
		}
		require.Equal(t, c.row == "ended", reply.Refused, "Open: %s", state)
	}
	tooMany := &backend.Call{Operation: call.Charge, Receipt: gcra.NoReceipt,
		Rows: []backend.AskedRow{rows["funnel"](1), rows["funnel"](2_000_000_000)}}
	tooMany.Rows[1].Key = "other"
	_, err := Open{Wall: wall}.Ask(t.Context(), tooMany)
	require.ErrorIs(t, err, backend.ErrInvalid)
	require.ErrorContains(t, err, `limiter: key "other": `)
}
