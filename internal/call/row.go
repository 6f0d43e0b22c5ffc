package call

import (
	"funnel/gcra"
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
)

// A Row is the part of a call that concerns one key. Request, state and decision are in the
// field that has the name of the kind.
type Row struct {
	Kind   Kind
	Funnel gcra.Funnel
	Slots  slots.Slots
	Quota  quota.Quota

	Decision Decision // the part of the decision that all kinds have
}

// A Decision is the part of a decision that all kinds have. The kinds explain the fields:
// [funnel/gcra.Decision], [funnel/slots.Decision], [funnel/quota.Decision].
type Decision struct {
	Asks       bool // whether the row asks for anything: a quantity of 0 does not
	Limited    bool
	Limit      int64
	Remaining  int64
	Wait       int64
	ResetAfter int64
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

// undo reverses a Reserve that was allowed: nothing is taken.
//
//go:nosplit
func (row *Row) undo(now int64) {
	switch row.Kind {
	case Slots:
		row.undoSlots(now)
	case Quota:
		row.undoQuota(now)
	default:
		row.undoFunnel(now)
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
