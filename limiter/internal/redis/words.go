package redis

import (
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// commandNames are the commands of the module, as any: to convert a string for each call would allocate memory.
var commandNames = [...]any{
	call.Reserve: "cl.reserve",
	call.Take:    "cl.take",
	call.Peek:    "cl.peek",
	call.Charge:  "cl.charge",
	call.Refund:  "cl.refund",
}

// operationNames are the operations as the complete script takes them.
var operationNames = [...]any{
	call.Reserve: "reserve",
	call.Take:    "take",
	call.Peek:    "peek",
	call.Charge:  "charge",
	call.Refund:  "refund",
}

// NameOf returns the name of an operation in the complete script.
func NameOf(operation call.Operation) string { return operationNames[operation].(string) }

// appendWords appends the words of a row that follow its key. A quota gets the period that runs at
// the instant at, or the length of a window.
func appendWords(args []any, row *backend.Row, at time.Time) []any {
	switch row.Kind {
	case call.Slots:
		return append(args, row.Words.Limit, row.Words.Count, row.Words.Period, row.Holder)
	case call.Quota:
		return append(args, row.Quota.Limit, "UNTIL", until(&row.Quota, at), row.Quantity)
	}
	return append(args, row.Words.Limit, row.Words.Count, row.Words.Period, row.Quantity)
}

// until returns the word for the period of a quota that runs at the instant at.
func until(quota *backend.Quota, at time.Time) string {
	lasts := quota.Calendar.Lasts()
	if lasts > 0 {
		return "+" + backend.Seconds(lasts)
	}
	return backend.Seconds(time.Duration(quota.EndAt(at)))
}

// appendLast appends the word after the rows, if there is one.
func appendLast(args []any, c *backend.Call) []any {
	switch {
	case c.MaxWait > 0:
		return append(args, backend.Seconds(c.MaxWait))
	case c.Operation == call.Refund && c.Receipt != gcra.NoReceipt:
		return append(args, c.Receipt)
	}
	return args
}
