// A call over funnels and slots is decided atomically. What a row decides alone is tested in packages gcra and
// slots, and whole commands against package contract in module/command.

package call_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
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
		"a peek takes nothing, and each row says what it would": {
			call.Peek, []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2, false)},
			[]answer{{false, 8, 0, 2, false}, {true, 0, 5, 5, false}},
			call.Summary{Asks: true, Limited: true, Wait: 5 * second},
		},
		"a charge applies to each row": {
			call.Charge, []call.Row{funnel(t, 8, 3), slotsOf(t, 2, 1, false)},
			[]answer{{true, 0, 1, 11, true}, {false, 0, 0, 30, true}},
			call.Summary{Asks: true, Limited: true, Wait: second},
		},
		"a refund applies to each row": {
			call.Refund, []call.Row{funnel(t, 8, 3), slotsOf(t, 2, 2, true)},
			[]answer{{false, 5, 0, 5, true}, {false, 1, 0, 5, true}},
			call.Summary{Asks: true},
		},
		"a take takes what fits": {
			call.Take, []call.Row{funnel(t, 8, 3)},
			[]answer{{true, 0, 1, 10, true}},
			call.Summary{Asks: true, Limited: true, Wait: second},
		},
		"no tokens are no question": {
			call.Reserve, []call.Row{funnel(t, 2, 0)},
			[]answer{{false, 8, 0, 2, false}},
			call.Summary{},
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

// Max wait and receipt reach the funnel.
func TestMaxWaitAndReceipt(t *testing.T) {
	rows := []call.Row{funnel(t, 10, 3)}
	_, err := call.Reserve.Apply(rows, now, 3*second, gcra.NoReceipt)
	require.NoError(t, err)
	require.Equal(t, []answer{{false, 0, 3, 13, true}}, answersOf(rows), "the tokens fit in 3 seconds")

	rows = []call.Row{funnel(t, 10, 3)}
	_, err = call.Refund.Apply(rows, now, 0, now+second)
	require.NoError(t, err)
	require.Equal(t, []answer{{false, 1, 0, 9, true}}, answersOf(rows), "no more than has not leaked")
}

// The code runs where nothing can be allocated.
func TestNothingIsAllocated(t *testing.T) {
	rows := []call.Row{funnel(t, 2, 3), slotsOf(t, 2, 2, false), funnel(t, 10, 1)}
	sum := call.Summary{}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		_, _ = call.Reserve.Apply(rows, now, 0, gcra.NoReceipt)
		sum = call.Summarize(rows)
	}))
	require.True(t, sum.Limited)
}
