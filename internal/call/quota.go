package call

//go:nosplit
func (row *Row) applyQuota(operation Operation, now int64) (err error) {
	switch operation {
	case Reserve:
		err = row.Quota.Reserve(now)
	case Take:
		err = row.Quota.Take(now)
	case Peek:
		err = row.Quota.Peek(now)
	case Charge:
		err = row.Quota.Charge(now)
	case Refund:
		row.Quota.Refund(now)
	}
	row.copyQuotaDecision()
	return err
}

//go:nosplit
func (row *Row) undoQuota(now int64) {
	row.Quota.Undo(now)
	row.copyQuotaDecision()
}

//go:nosplit
func (row *Row) copyQuotaDecision() {
	from, to := &row.Quota.Decision, &row.Decision
	to.Asks = row.Quota.Request.Quantity() > 0
	to.Limited = from.Limited
	to.Limit = from.Limit
	to.Remaining = from.Remaining
	to.Wait = from.Wait
	to.ResetAfter = from.ResetAfter
}
