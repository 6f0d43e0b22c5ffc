// A call over funnels, slots and quotas is decided atomically. What a row decides alone is tested in packages gcra,
// slots and quota, and whole commands against package contract in module/command.

package call_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/quota"
	"funnel/slots"
)

const (
	second = int64(1e9)
	now    = 1_800_000_000 * second
)

// funnel is a row for quantity tokens of a funnel of 10 that leaks one in a second and holds level tokens.
func funnel(t *testing.T, level, quantity int64) call.Row {
	rate, err := gcra.NewRate(10, 1, second)
	require.NoError(t, err)
	request, err := rate.Request(quantity)
	require.NoError(t, err)
	return call.Row{Kind: call.Funnel, Funnel: gcra.Funnel{Request: request, TAT: now + level*second}}
}

// slotsOf is a row for one of limit slots, of which running run, for another 5 seconds; own says that one of
// them is the holder's.
func slotsOf(t *testing.T, limit, running int64, own bool) call.Row {
	request, err := slots.NewRequest(limit, 30*second)
	require.NoError(t, err)
	end := (now + 5*second) / 1e6
	state := slots.State{Running: running, First: end, Last: end}
	if own {
		state.Own = end
	}
	return call.Row{Kind: call.Slots, Slots: slots.Slots{Request: request, State: state}}
}

// quotaOf is a row for a quantity of a quota of 10 of which used is used, until so many seconds from now. Its key
// expires a minute from now.
func quotaOf(t *testing.T, until, used, quantity int64) call.Row {
	request, err := quota.NewRequest(10, now+until*second, quantity)
	require.NoError(t, err)
	return call.Row{Kind: call.Quota, Quota: quota.Quota{Request: request, State: quota.State{Used: used, Expiry: (now + 60*second) / 1e6}}}
}

// An answer is what a row says, in tokens or slots and in seconds.
type answer struct {
	limited                     bool
	remaining, wait, resetAfter int64
	changes                     bool
}

// answersOf are the answers of rows, in their order.
func answersOf(rows []call.Row) (answers []answer) {
	for i := range rows {
		d := rows[i].Decision
		answers = append(answers, answer{d.Limited, d.Remaining, d.Wait / second, d.ResetAfter / second, rows[i].Changes()})
	}
	return answers
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		operation call.Operation
		rows      []call.Row
		want      []answer
		sum       call.Summary
	}{
		"a funnel and slots allow": {
			call.Reserve, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 1, false)},
			[]answer{{false, 5, 0, 5, true}, {false, 0, 0, 30, true}},
			call.Summary{Asks: true},
		},
		"a funnel limits: the slot stays free": {
			call.Reserve, []call.Row{slotsOf(t, 2, 1, false), funnel(t, 10, 3)},
			[]answer{{false, 1, 0, 5, false}, {true, 0, 3, 10, false}},
			call.Summary{Asks: true, Limited: true, Wait: 3 * second},
		},
		"slots limit: the tokens stay in the funnel": {
			call.Reserve, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2, false)},
			[]answer{{false, 8, 0, 2, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 5 * second},
		},
		"both limit: the longest wait counts": {
			call.Reserve, []call.Row{funnel(t, 10, 9), slotsOf(t, 2, 2, false)},
			[]answer{{true, 0, 9, 10, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 9 * second},
		},
		"never is the longest wait": {
			call.Reserve, []call.Row{funnel(t, 10, 9), funnel(t, 0, 11)},
			[]answer{{true, 0, 9, 10, false}, {true, 10, 0, 0, false}},
			call.Summary{Asks: true, Limited: true, Wait: -1},
		},
		"a quota allows beside the other kinds": {
			call.Reserve, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 1, false), quotaOf(t, 60, 4, 6)},
			[]answer{{false, 5, 0, 5, true}, {false, 0, 0, 30, true}, {false, 0, 0, 60, true}},
			call.Summary{Asks: true},
		},
		"a quota limits: the tokens stay in the funnel": {
			call.Reserve, []call.Row{funnel(t, 2, 3), quotaOf(t, 60, 4, 7)},
			[]answer{{false, 8, 0, 2, false}, {true, 6, 60, 60, false}},
			call.Summary{Asks: true, Limited: true, Wait: 60 * second},
		},
		"a funnel limits: of a quota nothing is used": {
			call.Reserve, []call.Row{funnel(t, 10, 3), quotaOf(t, 60, 4, 6)},
			[]answer{{true, 0, 3, 10, false}, {false, 6, 0, 60, false}},
			call.Summary{Asks: true, Limited: true, Wait: 3 * second},
		},
		"a funnel limits: a quota cuts its period all the same": {
			call.Reserve, []call.Row{funnel(t, 10, 3), quotaOf(t, 30, 4, 6), quotaOf(t, 30, 4, 7)},
			[]answer{{true, 0, 3, 10, false}, {false, 6, 0, 30, true}, {true, 6, 30, 30, true}},
			call.Summary{Asks: true, Limited: true, Wait: 30 * second},
		},
		"a quota of which 0 is asked asks for nothing": {
			call.Reserve, []call.Row{quotaOf(t, 60, 4, 0)},
			[]answer{{false, 6, 0, 60, false}},
			call.Summary{},
		},
		"a charge goes above a quota": {
			call.Charge, []call.Row{funnel(t, 2, 3), quotaOf(t, 60, 4, 7)},
			[]answer{{false, 5, 0, 5, true}, {true, 0, 60, 60, true}},
			call.Summary{Asks: true, Limited: true, Wait: 60 * second},
		},
		"a refund of an ended period does nothing": {
			call.Refund, []call.Row{funnel(t, 2, 1), quotaOf(t, 0, 4, 3)},
			[]answer{{false, 9, 0, 1, true}, {false, 6, 0, 60, false}},
			call.Summary{Asks: true},
		},
		"a peek takes nothing, and each row says what it would": {
			call.Peek, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2, false)},
			[]answer{{false, 8, 0, 2, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 5 * second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.operation.Apply(c.rows, now, 0, gcra.NoReceipt)
			require.NoError(t, err)
			require.Equal(t, c.want, answersOf(c.rows))
			require.Equal(t, c.sum, call.Summarize(c.rows))
		})
	}
}

// The first row that has an error is named, even if an earlier row is limited.
func TestErrors(t *testing.T) {
	late := slotsOf(t, 2, 1, false)
	late.Slots.Request, _ = slots.NewRequest(2, 1<<63-1)
	rows := []call.Row{funnel(t, 10, 1), late, funnel(t, 0, 1)}
	failed, err := call.Reserve.Apply(rows, now, 0, gcra.NoReceipt)
	require.Equal(t, 1, failed)
	require.Equal(t, slots.ErrEnd, err)
}

// Before the states are read, a call knows whether the period of one of its quotas has ended.
func TestEndedPeriods(t *testing.T) {
	for name, c := range map[string]struct {
		operation call.Operation
		rows      []call.Row
		want      int
	}{
		"none":                      {call.Reserve, []call.Row{funnel(t, 10, 1), quotaOf(t, 1, 0, 1)}, -1},
		"the first of two":          {call.Charge, []call.Row{funnel(t, 10, 1), quotaOf(t, 0, 0, 1), quotaOf(t, -1, 0, 0)}, 1},
		"refunds may come too late": {call.Refund, []call.Row{quotaOf(t, 0, 4, 1)}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.operation.FirstEnded(c.rows, now))
			failed, err := c.operation.Apply(c.rows, now, 0, gcra.NoReceipt)
			if c.want < 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.want, failed)
			require.Equal(t, quota.ErrEnded, err)
		})
	}
}
