package backend

import (
	"slices"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
)

// The sources of decisions.
const (
	Module = "module"
	Script = "script"
	Local  = "local"
	Open   = "open"
	Closed = "closed"
)

// A Reply is the decision on a call. The zero Reply decides nothing.
type Reply struct {
	Source  string // Module, Script, Local, Open or Closed; empty if nothing was decided
	Limited bool   // at least one row limits the call
	Refused bool   // nothing was taken or charged, whatever the operation
	Sent    bool   // the call may have been executed, even if there is an error
	Cause   error  // the error of Redis, if another backend has decided instead

	// The decisions on the rows. Most calls have one row, for which nothing is allocated.
	First  RowReply
	Others []RowReply
}

// A RowReply is the decision on one row.
type RowReply struct {
	Limited    bool // by this row alone
	Held       bool // the holder had a slot before the call
	Remaining  int64
	Wait       time.Duration // or gcra.Never
	ResetAfter time.Duration
	Taken      int64 // by Take
	Receipt    int64 // the TAT, or the end of a quota's period, if tokens were taken; otherwise 0
}

// Row returns the decision on a row.
func (r *Reply) Row(index int) *RowReply {
	if index == 0 {
		return &r.First
	}
	return &r.Others[index-1]
}

// NewReply returns a reply, without receipts, from rows that package call has decided.
func NewReply(source string, rows []call.Row) Reply {
	reply := Reply{Source: source, Limited: call.Summarize(rows).Limited}
	if len(rows) > 1 {
		reply.Others = make([]RowReply, len(rows)-1)
	}
	for i := range rows {
		decision := &rows[i].Decision
		*reply.Row(i) = RowReply{
			Limited:    decision.Limited,
			Held:       rows[i].Slots.Decision.Held > 0,
			Remaining:  decision.Remaining,
			Wait:       time.Duration(decision.Wait),
			ResetAfter: time.Duration(decision.ResetAfter),
			Taken:      rows[i].Taken(),
		}
	}
	return reply
}

// Ended returns the reply on a call if one of its quotas has ended at an instant and has no next period. A refund to
// such a quota changes nothing, and is decided like any other refund.
func (c *Call) Ended(source string, at time.Time) (reply Reply, ended bool) {
	if c.Operation == call.Refund || !slices.ContainsFunc(c.Rows, func(row Row) bool { return row.HasEnded(at) }) {
		return Reply{}, false
	}
	rows := make([]call.Row, len(c.Rows))
	for i := range c.Rows {
		if c.Rows[i].HasEnded(at) {
			rows[i].Decision = call.Decision{Limited: true, Wait: gcra.Never}
		}
	}
	reply = NewReply(source, rows)
	reply.Refused = true
	return reply, true
}
