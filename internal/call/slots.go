package call

//go:nosplit
func (row *Row) applySlots(operation Operation, now int64) (err error) {
	switch operation {
	case Reserve:
		err = row.Slots.Reserve(now)
	case Peek:
		err = row.Slots.Peek(now)
	case Charge:
		err = row.Slots.Charge(now)
	case Refund:
		row.Slots.Refund(now)
	}
	row.copySlotsDecision()
	return err
}

//go:nosplit
func (row *Row) undoSlots(now int64) {
	row.Slots.Undo(now)
	row.copySlotsDecision()
}

//go:nosplit
func (row *Row) copySlotsDecision() {
	from, to := &row.Slots.Decision, &row.Decision
	to.Asks = true
	to.Limited = from.Limited
	to.Limit = from.Limit
	to.Remaining = from.Remaining
	to.Wait = from.Wait
	to.ResetAfter = from.ResetAfter
}
