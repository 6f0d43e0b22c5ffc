// What a call does to its rows, as a table: the states, what is asked, and what is decided and
// stored after that. The packages of the kinds test what each operation does to one row, and
// package module/command compares whole commands with package contract.

package call_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/quota"
	"funnel/slots"
)

const (
	second = int64(1e9)
	now    = 1_800_000_000 * second
	most   = math.MaxInt64
)

// in returns an instant so many seconds from now, in milliseconds.
func in(seconds int64) int64 { return (now + seconds*second) / 1e6 }

// funnel asks for tokens of a funnel that holds ten, and leaks one a second. It is empty in level
// seconds.
func funnel(level, quantity int64) call.Row {
	rate, err := gcra.NewRate(10, 1, second)
	if err != nil {
		panic(err)
	}
	request, err := rate.Request(quantity)
	if err != nil {
		panic(err)
	}
	return call.Row{Kind: call.Funnel, Funnel: gcra.Funnel{Request: request, TAT: now + level*second}}
}

// slot asks for one of two slots for half a minute. So many other holders have one, for 5 seconds,
// and the holder has one for own seconds.
func slot(others, own int64) call.Row {
	request, err := slots.NewRequest(2, 30*second)
	if err != nil {
		panic(err)
	}
	state := slots.State{Running: others}
	if others > 0 {
		state.First, state.Last = in(5), in(5)
	}
	if own > 0 {
		state.Own = in(own)
		state.Running++
	}
	return call.Row{Kind: call.Slots, Slots: slots.Slots{Request: request, State: state}}
}

// part asks for a quantity of a quota of ten until half a minute from now. The key expires in so
// many seconds.
func part(used, expiry, quantity int64) call.Row {
	request, err := quota.NewRequest(10, now+30*second, quantity)
	if err != nil {
		panic(err)
	}
	state := quota.State{Used: used, Expiry: in(expiry)}
	return call.Row{Kind: call.Quota, Quota: quota.Quota{Request: request, State: state}}
}

// try asks for a quantity of the same quota in a window of a minute.
func try(used, expiry, quantity int64) call.Row {
	row := part(used, expiry, quantity)
	request, err := quota.NewWindowRequest(10, 60*second, quantity)
	if err != nil {
		panic(err)
	}
	row.Quota.Request = request
	return row
}

// An outcome is what a call has decided about a row. Times are in seconds.
type outcome struct {
	limited          bool
	remaining        int64
	wait, resetAfter int64

	// What the key holds then: of a funnel the time until it is empty, of slots the time until the
	// holder's ends, and of a quota what is used.
	after int64

	// Whether that has to be stored.
	changes bool
}

func outcomeOf(row *call.Row) outcome {
	after := row.Quota.NewState.Used
	switch row.Kind {
	case call.Funnel:
		after = (row.Funnel.NewTAT - now) / second
	case call.Slots:
		after = (max(row.Slots.End*1e6, now) - now) / second
	}
	d := row.Decision()
	wait := d.Wait
	if wait != decision.Never {
		wait /= second
	}
	return outcome{d.Limited, d.Remaining, wait, d.ResetAfter / second, after, row.Changes()}
}

// A test is one row of a table.
type test struct {
	name             string
	operation        call.Operation
	maxWait, receipt int64
	rows             []call.Row
	want             []outcome
	taken            int64 // of the first row
}

func run(t *testing.T, tests []test) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if c.receipt == 0 {
				c.receipt = gcra.NoReceipt
			}
			failed, err := c.operation.Apply(c.rows, now, c.maxWait, c.receipt)
			require.NoError(t, err)
			require.Zero(t, failed)
			for i := range c.want {
				require.Equal(t, c.want[i], outcomeOf(&c.rows[i]), "row %d", i)
			}
			require.Len(t, c.want, len(c.rows))
			require.Equal(t, c.taken, c.rows[0].Taken())
		})
	}
}

// Each operation does to a row of each kind what the method with its name does.
func TestApplyToOneRow(t *testing.T) {
	run(t, []test{
		{
			name: "reserve tokens", operation: call.Reserve, rows: []call.Row{funnel(2, 3)},
			want: []outcome{{remaining: 5, resetAfter: 5, after: 5, changes: true}},
		}, {
			name: "reserve tokens that do not fit", operation: call.Reserve, rows: []call.Row{funnel(8, 3)},
			want: []outcome{{limited: true, remaining: 2, wait: 1, resetAfter: 8, after: 8}},
		}, {
			name: "reserve tokens ahead of time", operation: call.Reserve, maxWait: second, rows: []call.Row{funnel(8, 3)},
			want: []outcome{{wait: 1, resetAfter: 11, after: 11, changes: true}},
		}, {
			name: "take the tokens that fit", operation: call.Take, rows: []call.Row{funnel(8, 3)}, taken: 2,
			want: []outcome{{limited: true, wait: 1, resetAfter: 10, after: 10, changes: true}},
		}, {
			name: "peek at tokens", operation: call.Peek, rows: []call.Row{funnel(2, 3)},
			want: []outcome{{remaining: 8, resetAfter: 2, after: 2}},
		}, {
			name: "charge tokens", operation: call.Charge, rows: []call.Row{funnel(8, 3)},
			want: []outcome{{limited: true, wait: 1, resetAfter: 11, after: 11, changes: true}},
		}, {
			name: "refund tokens", operation: call.Refund, rows: []call.Row{funnel(8, 3)},
			want: []outcome{{remaining: 5, resetAfter: 5, after: 5, changes: true}},
		}, {
			name: "refund tokens by receipt", operation: call.Refund, receipt: now + second, rows: []call.Row{funnel(8, 3)},
			want: []outcome{{remaining: 3, resetAfter: 7, after: 7, changes: true}},
		},

		{
			name: "reserve a slot", operation: call.Reserve, rows: []call.Row{slot(1, 0)},
			want: []outcome{{resetAfter: 30, after: 30, changes: true}},
		}, {
			name: "reserve a slot where none is free", operation: call.Reserve, rows: []call.Row{slot(2, 0)},
			want: []outcome{{limited: true, wait: 5, resetAfter: 5}},
		}, {
			name: "peek at slots", operation: call.Peek, rows: []call.Row{slot(1, 0)},
			want: []outcome{{remaining: 1, resetAfter: 5}},
		}, {
			name: "charge a slot", operation: call.Charge, rows: []call.Row{slot(2, 0)},
			want: []outcome{{limited: true, wait: 5, resetAfter: 30, after: 30, changes: true}},
		}, {
			name: "refund a slot", operation: call.Refund, rows: []call.Row{slot(1, 9)},
			want: []outcome{{remaining: 1, resetAfter: 5, changes: true}},
		},

		{
			name: "reserve of a quota", operation: call.Reserve, rows: []call.Row{part(4, 30, 6)},
			want: []outcome{{resetAfter: 30, after: 10, changes: true}},
		}, {
			name: "reserve more than is left", operation: call.Reserve, rows: []call.Row{part(4, 30, 7)},
			want: []outcome{{limited: true, remaining: 6, wait: 30, resetAfter: 30, after: 4}},
		}, {
			name: "take what is left", operation: call.Take, rows: []call.Row{part(4, 30, 7)}, taken: 6,
			want: []outcome{{limited: true, wait: 30, resetAfter: 30, after: 10, changes: true}},
		}, {
			name: "peek at a quota", operation: call.Peek, rows: []call.Row{part(4, 30, 6)},
			want: []outcome{{remaining: 6, resetAfter: 30, after: 4}},
		}, {
			name: "charge to a quota", operation: call.Charge, rows: []call.Row{part(4, 30, 7)},
			want: []outcome{{limited: true, wait: 30, resetAfter: 30, after: 11, changes: true}},
		}, {
			name: "refund to a quota", operation: call.Refund, rows: []call.Row{part(4, 30, 3)},
			want: []outcome{{remaining: 9, resetAfter: 30, after: 1, changes: true}},
		}, {
			name: "reserve in a window that begins", operation: call.Reserve, rows: []call.Row{try(9, 0, 6)},
			want: []outcome{{remaining: 4, resetAfter: 60, after: 6, changes: true}},
		},
	})
}

// Reserve takes from all rows, or from none. The other operations apply to each row.
func TestApplyToSeveralRows(t *testing.T) {
	run(t, []test{
		{
			name: "all rows allow the call", operation: call.Reserve,
			rows: []call.Row{funnel(2, 3), slot(1, 0), part(4, 60, 6), try(4, 60, 6)},
			want: []outcome{
				{remaining: 5, resetAfter: 5, after: 5, changes: true},
				{resetAfter: 30, after: 30, changes: true},
				{resetAfter: 30, after: 10, changes: true},
				{resetAfter: 60, after: 10, changes: true},
			},
		}, {
			name: "the first row limits: the slot stays free, and the quota only cuts its period", operation: call.Reserve,
			rows: []call.Row{funnel(8, 3), slot(1, 0), part(4, 60, 6), try(4, 60, 6)},
			want: []outcome{
				{limited: true, remaining: 2, wait: 1, resetAfter: 8, after: 8},
				{remaining: 1, resetAfter: 5},
				{remaining: 6, resetAfter: 30, after: 4, changes: true},
				{remaining: 6, resetAfter: 60, after: 4},
			},
		}, {
			name: "the row in the middle limits: the slot is not renewed", operation: call.Reserve,
			rows: []call.Row{slot(1, 9), part(4, 30, 7), funnel(2, 3)},
			want: []outcome{
				{resetAfter: 9, after: 9},
				{limited: true, remaining: 6, wait: 30, resetAfter: 30, after: 4},
				{remaining: 8, resetAfter: 2, after: 2},
			},
		}, {
			name: "the last row limits: no period begins", operation: call.Reserve,
			rows: []call.Row{try(9, 0, 6), slot(2, 0)},
			want: []outcome{
				{remaining: 10},
				{limited: true, wait: 5, resetAfter: 5},
			},
		}, {
			name: "two rows limit", operation: call.Reserve,
			rows: []call.Row{funnel(8, 3), funnel(2, 3), part(4, 30, 11)},
			want: []outcome{
				{limited: true, remaining: 2, wait: 1, resetAfter: 8, after: 8},
				{remaining: 8, resetAfter: 2, after: 2},
				{limited: true, remaining: 6, wait: decision.Never, resetAfter: 30, after: 4},
			},
		}, {
			name: "a peek takes nothing, and each row says what it would", operation: call.Peek,
			rows: []call.Row{funnel(8, 3), slot(1, 0), part(4, 60, 6)},
			want: []outcome{
				{limited: true, remaining: 2, wait: 1, resetAfter: 8, after: 8},
				{remaining: 1, resetAfter: 5},
				{remaining: 6, resetAfter: 30, after: 4},
			},
		}, {
			name: "a charge is for all rows, even if one is limited then", operation: call.Charge,
			rows: []call.Row{funnel(8, 3), slot(1, 0), part(4, 30, 6)},
			want: []outcome{
				{limited: true, wait: 1, resetAfter: 11, after: 11, changes: true},
				{resetAfter: 30, after: 30, changes: true},
				{resetAfter: 30, after: 10, changes: true},
			},
		}, {
			name: "a refund is for all rows, even if one is overfull", operation: call.Refund,
			rows: []call.Row{funnel(15, 3), slot(1, 9), part(4, 30, 3)},
			want: []outcome{
				{limited: true, wait: 2, resetAfter: 12, after: 12, changes: true},
				{remaining: 1, resetAfter: 5, changes: true},
				{remaining: 9, resetAfter: 30, after: 1, changes: true},
			},
		},
	})
}

// The first row whose decision is an error fails the call.
func TestErrors(t *testing.T) {
	fullFunnel := funnel(0, 1)
	endlessSlot := slot(0, 0)
	fullQuota := part(most, 30, 1)
	fullFunnel.Funnel.TAT = most
	request, err := slots.NewRequest(2, most)
	require.NoError(t, err)
	endlessSlot.Slots.Request = request

	for _, c := range []struct {
		name   string
		rows   []call.Row
		failed int
		err    error
	}{
		{name: "no error", rows: []call.Row{funnel(2, 3), slot(1, 0), part(4, 30, 6)}},
		{name: "a funnel", rows: []call.Row{fullFunnel, slot(1, 0)}, failed: 0, err: gcra.ErrTAT},
		{name: "slots", rows: []call.Row{funnel(2, 3), endlessSlot}, failed: 1, err: slots.ErrEnd},
		{name: "a quota", rows: []call.Row{funnel(2, 3), slot(1, 0), fullQuota}, failed: 2, err: quota.ErrUsed},
		{name: "the first of several", rows: []call.Row{funnel(2, 3), fullQuota, fullFunnel}, failed: 1, err: quota.ErrUsed},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed, err := call.Charge.Apply(c.rows, now, 0, gcra.NoReceipt)
			require.Equal(t, c.err, err)
			require.Equal(t, c.failed, failed)
		})
	}
}

// A call for a period that has ended fails, unless it is a refund. A window has no end of its own.
func TestFirstEnded(t *testing.T) {
	const end = now + 30*second
	rows := []call.Row{funnel(2, 3), slot(1, 0), try(4, 30, 6), part(4, 30, 6), part(4, 60, 6)}
	for _, operation := range []call.Operation{call.Reserve, call.Take, call.Peek, call.Charge} {
		require.Equal(t, -1, operation.FirstEnded(rows, end-1))
		require.Equal(t, 3, operation.FirstEnded(rows, end))
		require.Equal(t, -1, operation.FirstEnded(rows[:3], most))
		require.Equal(t, 0, operation.FirstEnded(rows[4:], end))
	}
	require.Equal(t, -1, call.Refund.FirstEnded(rows, most))
}

// A call is limited if a row is, asks for something if a row does, and waits as long as the row
// that waits the longest.
func TestSummarize(t *testing.T) {
	nothing := funnel(2, 0)
	for _, c := range []struct {
		name string
		rows []call.Row
		want call.Summary
	}{
		{name: "nothing asked", rows: []call.Row{nothing, part(4, 30, 0)}, want: call.Summary{}},
		{name: "tokens asked", rows: []call.Row{nothing, funnel(2, 1)}, want: call.Summary{Asks: true}},
		{name: "a slot asked", rows: []call.Row{slot(1, 0), nothing}, want: call.Summary{Asks: true}},
		{name: "a part of a quota asked", rows: []call.Row{part(4, 30, 1), nothing}, want: call.Summary{Asks: true}},
		{
			name: "the first waits longer", rows: []call.Row{slot(2, 0), funnel(8, 3)},
			want: call.Summary{Asks: true, Limited: true, Wait: 5 * second},
		}, {
			name: "the last waits longer", rows: []call.Row{funnel(8, 3), part(4, 30, 7)},
			want: call.Summary{Asks: true, Limited: true, Wait: 30 * second},
		}, {
			name: "for ever is longer", rows: []call.Row{part(4, 30, 7), funnel(8, 11), slot(2, 0)},
			want: call.Summary{Asks: true, Limited: true, Wait: decision.Never},
		}, {
			name: "limited, without asking for anything", rows: []call.Row{funnel(12, 0)},
			want: call.Summary{Limited: true, Wait: 2 * second},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := call.Peek.Apply(c.rows, now, 0, gcra.NoReceipt)
			require.NoError(t, err)
			require.Equal(t, c.want, call.Summarize(c.rows))
		})
	}
}
