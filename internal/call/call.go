// Package call decides a call over several rows atomically. A [Row] is of one of the kinds that
// packages gcra, slots and quota compute. The module decides with this package, and so does a
// client that keeps rows in its own process. The file row.go has what depends on the kind of a row.
//
// The package reads no clock and allocates nothing. It runs inside a server without the Go runtime:
// docs/go-runtime.md has the rules.
package call

import "funnel/internal/decision"

// MaxRows is how many rows a call may have. They lie on the server's stack, and the server serves
// nobody else while it decides on them.
const MaxRows = 64

// An Operation is what a call does to its rows.
type Operation uint32

// The operations. The methods of [funnel/gcra.Funnel], [funnel/slots.Slots] and
// [funnel/quota.Quota] with these names say what each does.
const (
	Reserve Operation = iota
	Take
	Peek
	Charge
	Refund
)

const _ = 3 - KindCount // a fourth kind needs a case in Apply

// Apply decides a call over rows of different keys atomically, at the instant now. Reserve takes
// from all rows, or from none if one is limited; the other operations apply to each row. Take is
// not for slots.
//
// MaxWait is for Reserve of one funnel, in nanoseconds; otherwise it is 0. Receipt is for Refund of
// one funnel: the NewTAT of the call that took the tokens. Otherwise it is [funnel/gcra.NoReceipt].
//
// If rows have errors, Apply returns the error of the first such row, and its index as failed. Then
// nothing is taken, and no decision may be used. Call FirstEnded first, because a period that has
// ended takes precedence over the errors of other rows.
//
//go:nosplit
func (operation Operation) Apply(rows []Row, now, maxWait, receipt int64) (failed int, err error) {
	for i := range rows {
		row := &rows[i]
		switch row.Kind {
		case Slots:
			err = operation.applySlots(&row.Slots, now)
		case Quota:
			err = operation.applyQuota(&row.Quota, now)
		default:
			err = operation.applyFunnel(&row.Funnel, now, maxWait, receipt)
		}
		if err != nil {
			return i, err
		}
	}
	if operation == Reserve && len(rows) > 1 {
		allOrNothing(rows, now)
	}
	return 0, nil
}

// FirstEnded returns the index of the first quota whose period has ended, or -1 if there is none.
// Such a call fails. FirstEnded uses only the requests. A refund for a period that has ended does
// nothing, and is not an error.
//
//go:nosplit
func (operation Operation) FirstEnded(rows []Row, now int64) int {
	for i := range rows {
		row := &rows[i]
		if row.Kind == Quota && operation != Refund && row.Quota.Request.Ended(now) {
			return i
		}
	}
	return -1
}

// allOrNothing undoes the decisions of the rows that would have allowed the call if another row
// limits it: nothing is taken. A quota still cuts its period.
//
//go:nosplit
func allOrNothing(rows []Row, now int64) {
	limited := false
	for i := range rows {
		limited = limited || rows[i].Decision().Limited
	}
	if !limited {
		return
	}
	for i := range rows {
		if !rows[i].Decision().Limited {
			rows[i].undo(now)
		}
	}
}

// A Summary is what the decisions on all rows of a call say together.
type Summary struct {
	Asks    bool  // whether the call asks for anything: a quantity of 0 does not
	Limited bool  // whether a row is limited
	Wait    int64 // the longest wait, or Never if a row can never be allowed
}

// Summarize sums up the decisions of a call.
//
//go:nosplit
func Summarize(rows []Row) (sum Summary) {
	for i := range rows {
		decided := rows[i].Decision()
		sum.Asks = sum.Asks || decided.Asks
		sum.Limited = sum.Limited || decided.Limited
		sum.Wait = decision.Longer(sum.Wait, decided.Wait)
	}
	return sum
}
