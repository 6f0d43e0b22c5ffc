package backend

import (
	"slices"
	"time"

	"funnel/internal/call"
	"funnel/internal/decision"
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
	Limited bool // at least one row limits the call
	Refused bool // nothing was taken or charged, whatever the operation
	Sent    bool // the call may have been executed, even if there is an error

	// The decisions on the rows. Most calls have one row, for which nothing is allocated.
	First  RowReply
	Others []RowReply
}

// A RowReply is the decision on one row.
type RowReply struct {
	Source     string // Module, Script, Local, Open or Closed; empty if nothing was decided
	Shard      any    // the shard of a ring that has decided the row; see AskedRow
	Cause      error  // why Redis has not decided the row, even if a policy has decided instead
	Limited    bool   // by this row alone
	Held       bool   // the holder had a slot before the call
	Remaining  int64
	Wait       time.Duration // or decision.Never
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

// Has reports whether the reply has a decision on a row, or says why there is none. The reply to a
// call that was never decided has one row, whatever the call.
func (r *Reply) Has(index int) bool { return index <= len(r.Others) }

// IsDecided reports whether a row was decided.
func (r *Reply) IsDecided(index int) bool { return r.Has(index) && r.Row(index).Source != "" }

// Grow makes room for the decisions on that many rows.
func (r *Reply) Grow(rows int) {
	if rows > 1 && r.Others == nil {
		r.Others = make([]RowReply, rows-1)
	}
}

// Clone returns a copy that shares nothing with the reply.
func (r *Reply) Clone() Reply {
	clone := *r
	clone.Others = slices.Clone(r.Others)
	return clone
}

// Void removes all decisions, but not why Redis has not decided.
func (r *Reply) Void() {
	r.Limited, r.Refused = false, false
	for i := range 1 + len(r.Others) {
		*r.Row(i) = RowReply{Cause: r.Row(i).Cause}
	}
}

// Blame notes on all rows why Redis has not decided them.
func (r *Reply) Blame(rows int, cause error) {
	r.Grow(rows)
	for i := range rows {
		r.Row(i).Cause = cause
	}
}

// NewReply returns a reply, without receipts, from rows that package call has decided.
func NewReply(source string, rows []call.Row) Reply {
	reply := Reply{Limited: call.Summarize(rows).Limited}
	reply.Grow(len(rows))
	for i := range rows {
		decision := rows[i].Decision()
		*reply.Row(i) = RowReply{
			Source:     source,
			Limited:    decision.Limited,
			Held:       rows[i].Slots.Held > 0,
			Remaining:  decision.Remaining,
			Wait:       time.Duration(decision.Wait),
			ResetAfter: time.Duration(decision.ResetAfter),
			Taken:      rows[i].Taken(),
		}
	}
	return reply
}

// Ended returns the reply on a call if one of its quotas has ended at an instant and has no next
// period. A refund to such a quota changes nothing, and is decided like any other refund.
func (c *Call) Ended(source string, at time.Time) (reply Reply, ended bool) {
	if c.Operation == call.Refund || !slices.ContainsFunc(c.Rows, func(row AskedRow) bool { return row.HasEnded(at) }) {
		return Reply{}, false
	}
	rows := make([]call.Row, len(c.Rows))
	for i := range c.Rows {
		if c.Rows[i].HasEnded(at) {
			*rows[i].Decision() = decision.Decision{Limited: true, Wait: decision.Never}
		}
	}
	reply = NewReply(source, rows)
	reply.Refused = true
	return reply, true
}
