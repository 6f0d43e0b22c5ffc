package call

//go:nosplit
func (row *Row) applyFunnel(operation Operation, now, maxWait, receipt int64) (err error) {
	switch operation {
	case Reserve:
		err = row.Funnel.Reserve(now, maxWait)
	case Take:
		err = row.Funnel.Take(now)
	case Peek:
		err = row.Funnel.Peek(now)
	case Charge:
		err = row.Funnel.Charge(now)
	case Refund:
		row.Funnel.Refund(now, receipt)
	}
	row.copyFunnelDecision()
	return err
}

//go:nosplit
func (row *Row) undoFunnel(now int64) {
	row.Funnel.Undo(now)
	row.copyFunnelDecision()
}

//go:nosplit
func (row *Row) copyFunnelDecision() {
	from, to := &row.Funnel.Decision, &row.Decision
	to.Asks = row.Funnel.Request.Quantity() > 0
	to.Limited = from.Limited
	to.Limit = from.Limit
	to.Remaining = from.Remaining
	to.Wait = from.Wait
	to.ResetAfter = from.ResetAfter
}
