package call

import (
	"funnel/gcra"
	"funnel/internal/decision"
	"funnel/quota"
	"funnel/slots"
)

// A Kind is what a row limits.
type Kind uint32

// The kinds.
const (
	Funnel Kind = iota // a rate
	Slots              // what is in flight
	Quota              // a sum per period

	// KindCount is how many kinds there are. Where a switch has a case for each kind, a constant
	// beside it overflows if there are more: a new kind does not compile until all switches know it.
	KindCount
)

const _ = 3 - KindCount // a fourth kind needs a case in each switch of this file

// A Row is the part of a call that concerns one key. Request, state and decision are in the field
// that has the name of the kind.
type Row struct {
	Kind   Kind
	Funnel gcra.Funnel
	Slots  slots.Slots
	Quota  quota.Quota
}

// Decision returns the part of the row's decision that all kinds have.
//
//go:nosplit
func (row *Row) Decision() *decision.Decision {
	switch row.Kind {
	case Slots:
		return &row.Slots.Decision
	case Quota:
		return &row.Quota.Decision
	default:
		return &row.Funnel.Decision
	}
}

//go:nosplit
func (operation Operation) applyFunnel(f *gcra.Funnel, now, maxWait, receipt int64) error {
	switch operation {
	case Reserve:
		return f.Reserve(now, maxWait)
	case Take:
		return f.Take(now)
	case Peek:
		return f.Peek(now)
	case Charge:
		return f.Charge(now)
	case Refund:
		f.Refund(now, receipt)
	}
	return nil
}

//go:nosplit
func (operation Operation) applySlots(s *slots.Slots, now int64) error {
	switch operation {
	case Reserve:
		return s.Reserve(now)
	case Peek:
		return s.Peek(now)
	case Charge:
		return s.Charge(now)
	case Refund:
		s.Refund(now)
	}
	return nil
}

//go:nosplit
func (operation Operation) applyQuota(q *quota.Quota, now int64) error {
	switch operation {
	case Reserve:
		return q.Reserve(now)
	case Take:
		return q.Take(now)
	case Peek:
		return q.Peek(now)
	case Charge:
		return q.Charge(now)
	case Refund:
		q.Refund(now)
	}
	return nil
}

// undo reverses a Reserve that was allowed: nothing is taken.
//
//go:nosplit
func (row *Row) undo(now int64) {
	switch row.Kind {
	case Slots:
		row.Slots.Undo(now)
	case Quota:
		row.Quota.Undo(now)
	default:
		row.Funnel.Undo(now)
	}
}

// Changes reports whether the call changes the state of the key, so that it must be stored.
//
//go:nosplit
func (row *Row) Changes() bool {
	switch row.Kind {
	case Slots:
		return row.Slots.Changes()
	case Quota:
		return row.Quota.Changes()
	default:
		return row.Funnel.Changes()
	}
}

// Taken returns how much Take has taken.
//
//go:nosplit
func (row *Row) Taken() int64 {
	if row.Kind == Quota {
		return row.Quota.Taken
	}
	return row.Funnel.Taken
}
