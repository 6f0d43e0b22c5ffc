// A call over funnels, slots and quotas is decided atomically. Package module/command compares whole commands with
// package contract.

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

// slotsOf is a row for one of limit slots, of which running run, by other holders, for another 5 seconds.
func slotsOf(t *testing.T, limit, running int64) call.Row {
	request, err := slots.NewRequest(limit, 30*second)
	require.NoError(t, err)
	end := (now + 5*second) / 1e6
	return call.Row{Kind: call.Slots, Slots: slots.Slots{Request: request,
		State: slots.State{Running: running, First: end, Last: end}}}
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
		"a funnel limits: the slot stays free": {
			call.Reserve, []call.Row{slotsOf(t, 2, 1), funnel(t, 10, 3)},
			[]answer{{false, 1, 0, 5, false}, {true, 0, 3, 10, false}},
			call.Summary{Asks: true, Limited: true, Wait: 3 * second},
		},
		"slots limit: the tokens stay in the funnel": {
			call.Reserve, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2)},
			[]answer{{false, 8, 0, 2, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 5 * second},
		},
		"both limit: the longest wait counts": {
			call.Reserve, []call.Row{funnel(t, 10, 9), slotsOf(t, 2, 2)},
			[]answer{{true, 0, 9, 10, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 9 * second},
		},
		"a quota allows beside the other kinds": {
			call.Reserve, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 1), quotaOf(t, 60, 4, 6)},
			[]answer{{false, 5, 0, 5, true}, {false, 0, 0, 30, true}, {false, 0, 0, 60, true}},
			call.Summary{Asks: true},
		},
		"a funnel limits: a quota cuts its period all the same": {
			call.Reserve, []call.Row{funnel(t, 10, 3), quotaOf(t, 30, 4, 6), quotaOf(t, 30, 4, 7)},
			[]answer{{true, 0, 3, 10, false}, {false, 6, 0, 30, true}, {true, 6, 30, 30, true}},
			call.Summary{Asks: true, Limited: true, Wait: 30 * second},
		},
		"a peek takes nothing, and each row says what it would": {
			call.Peek, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2)},
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
