package call

import (
	"funnel/gcra"
	"funnel/slots"
)

// A Kind says what a row limits.
type Kind uint32

// The kinds.
const (
	Funnel Kind = iota // a rate
	Slots              // what is in flight
)

// A Row is the part of a call that concerns one key. Request, state and decision are in the
// field that has the name of the kind.
type Row struct {
	Kind   Kind
	Funnel gcra.Funnel
	Slots  slots.Slots

	Decision Decision // what rows of all kinds answer
}

// A Decision is the part of a decision that all kinds have. The kinds explain the fields:
// [funnel/gcra.Decision], [funnel/slots.Decision].
type Decision struct {
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
	default:
		return row.Funnel.Changes()
	}
}

// undo takes nothing after all.
//
//go:nosplit
func (row *Row) undo(now int64) {
	switch row.Kind {
	case Slots:
		row.undoSlots(now)
	default:
		row.undoFunnel(now)
	}
}

// asks reports whether the row asks for anything.
//
//go:nosplit
func (row *Row) asks() bool {
	switch row.Kind {
	case Slots:
		return true
	default:
		return row.Funnel.Request.Quantity() > 0
	}
}
