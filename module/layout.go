package module

// #include "call.h"
import "C"

import (
	"unsafe"

	"funnel/internal/call"
	"funnel/module/command"
)

// same has one element, so that any other index is a compile error: a difference that is
// not 0, of either sign.
var same [1]int

// C and Go each declare the structures that cross the boundary. The compiler compares them
// here: the size of each structure, and the offset and the size of each field that both
// sides use.
func _() {
	{
		var c C.struct_call
		var g command.Call
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.operation)-unsafe.Offsetof(g.Operation)]
		_ = same[unsafe.Sizeof(c.operation)-unsafe.Sizeof(g.Operation)]
		_ = same[unsafe.Offsetof(c.form)-unsafe.Offsetof(g.Form)]
		_ = same[unsafe.Sizeof(c.form)-unsafe.Sizeof(g.Form)]
		_ = same[unsafe.Offsetof(c.length)-unsafe.Offsetof(g.Length)]
		_ = same[unsafe.Sizeof(c.length)-unsafe.Sizeof(g.Length)]
		_ = same[unsafe.Offsetof(c.limit_surplus)-unsafe.Offsetof(g.LimitSurplus)]
		_ = same[unsafe.Sizeof(c.limit_surplus)-unsafe.Sizeof(g.LimitSurplus)]
		_ = same[unsafe.Offsetof(c.now)-unsafe.Offsetof(g.Now)]
		_ = same[unsafe.Sizeof(c.now)-unsafe.Sizeof(g.Now)]
		_ = same[unsafe.Offsetof(c.last_word)-unsafe.Offsetof(g.LastWord)]
		_ = same[unsafe.Sizeof(c.last_word)-unsafe.Sizeof(g.LastWord)]
		_ = same[unsafe.Offsetof(c.verdict)-unsafe.Offsetof(g.Verdict)]
		_ = same[unsafe.Sizeof(c.verdict)-unsafe.Sizeof(g.Verdict)]
		_ = same[unsafe.Offsetof(c.message)-unsafe.Offsetof(g.Message)]
		_ = same[unsafe.Sizeof(c.message)-unsafe.Sizeof(g.Message)]
		_ = same[unsafe.Offsetof(c.writes)-unsafe.Offsetof(g.Writes)]
		_ = same[unsafe.Sizeof(c.writes)-unsafe.Sizeof(g.Writes)]
		_ = same[unsafe.Offsetof(c.seconds)-unsafe.Offsetof(g.Seconds)]
		_ = same[unsafe.Sizeof(c.seconds)-unsafe.Sizeof(g.Seconds)]
		_ = same[unsafe.Offsetof(c.limited)-unsafe.Offsetof(g.Limited)]
		_ = same[unsafe.Sizeof(c.limited)-unsafe.Sizeof(g.Limited)]
		_ = same[unsafe.Offsetof(c.taken)-unsafe.Offsetof(g.Taken)]
		_ = same[unsafe.Sizeof(c.taken)-unsafe.Sizeof(g.Taken)]
		_ = same[unsafe.Offsetof(c.wait)-unsafe.Offsetof(g.Wait)]
		_ = same[unsafe.Sizeof(c.wait)-unsafe.Sizeof(g.Wait)]
		_ = same[unsafe.Offsetof(c.replies)-unsafe.Offsetof(g.Replies)]
		_ = same[unsafe.Sizeof(c.replies)-unsafe.Sizeof(g.Replies)]
		_ = same[unsafe.Offsetof(c.rows)-unsafe.Offsetof(g.Rows)]
		_ = same[unsafe.Sizeof(c.rows)-unsafe.Sizeof(g.Rows)]
		_ = same[unsafe.Offsetof(c.decided)-unsafe.Offsetof(g.Decided)]
		_ = same[unsafe.Sizeof(c.decided)-unsafe.Sizeof(g.Decided)]
	}
	{
		var c C.struct_row
		var g command.Row
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.words)-unsafe.Offsetof(g.Words)]
		_ = same[unsafe.Sizeof(c.words)-unsafe.Sizeof(g.Words)]
		_ = same[unsafe.Offsetof(c.kind)-unsafe.Offsetof(g.Kind)]
		_ = same[unsafe.Sizeof(c.kind)-unsafe.Sizeof(g.Kind)]
		_ = same[unsafe.Offsetof(c.stored)-unsafe.Offsetof(g.Stored)]
		_ = same[unsafe.Sizeof(c.stored)-unsafe.Sizeof(g.Stored)]
		_ = same[unsafe.Offsetof(c.write)-unsafe.Offsetof(g.Write)]
		_ = same[unsafe.Sizeof(c.write)-unsafe.Sizeof(g.Write)]
		_ = same[unsafe.Offsetof(c.string)-unsafe.Offsetof(g.String)]
		_ = same[unsafe.Sizeof(c.string)-unsafe.Sizeof(g.String)]
		_ = same[unsafe.Offsetof(c.funnel)-unsafe.Offsetof(g.Funnel)]
		_ = same[unsafe.Sizeof(c.funnel)-unsafe.Sizeof(g.Funnel)]
		_ = same[unsafe.Offsetof(c.slots)-unsafe.Offsetof(g.Slots)]
		_ = same[unsafe.Sizeof(c.slots)-unsafe.Sizeof(g.Slots)]
		_ = same[unsafe.Offsetof(c.quota)-unsafe.Offsetof(g.Quota)]
		_ = same[unsafe.Sizeof(c.quota)-unsafe.Sizeof(g.Quota)]
	}
	{
		var c C.struct_string_key
		var g command.StringKey
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.stored)-unsafe.Offsetof(g.Stored)]
		_ = same[unsafe.Sizeof(c.stored)-unsafe.Sizeof(g.Stored)]
		_ = same[unsafe.Offsetof(c.stored_expiry)-unsafe.Offsetof(g.StoredExpiry)]
		_ = same[unsafe.Sizeof(c.stored_expiry)-unsafe.Sizeof(g.StoredExpiry)]
		_ = same[unsafe.Offsetof(c.value)-unsafe.Offsetof(g.Value)]
		_ = same[unsafe.Sizeof(c.value)-unsafe.Sizeof(g.Value)]
		_ = same[unsafe.Offsetof(c.expiry_milliseconds)-unsafe.Offsetof(g.ExpiryMilliseconds)]
		_ = same[unsafe.Sizeof(c.expiry_milliseconds)-unsafe.Sizeof(g.ExpiryMilliseconds)]
		_ = same[unsafe.Offsetof(c.expiry)-unsafe.Offsetof(g.Expiry)]
		_ = same[unsafe.Sizeof(c.expiry)-unsafe.Sizeof(g.Expiry)]
	}
	{
		var c C.struct_funnel
		var g command.Funnel
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.has_receipt)-unsafe.Offsetof(g.HasReceipt)]
		_ = same[unsafe.Sizeof(c.has_receipt)-unsafe.Sizeof(g.HasReceipt)]
	}
	{
		var c C.struct_quota
		var g command.Quota
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.until)-unsafe.Offsetof(g.Until)]
		_ = same[unsafe.Sizeof(c.until)-unsafe.Sizeof(g.Until)]
	}
	{
		var c C.struct_slots
		var g command.Slots
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.limit)-unsafe.Offsetof(g.Limit)]
		_ = same[unsafe.Sizeof(c.limit)-unsafe.Sizeof(g.Limit)]
		_ = same[unsafe.Offsetof(c.own)-unsafe.Offsetof(g.Own)]
		_ = same[unsafe.Sizeof(c.own)-unsafe.Sizeof(g.Own)]
		_ = same[unsafe.Offsetof(c.running)-unsafe.Offsetof(g.Running)]
		_ = same[unsafe.Sizeof(c.running)-unsafe.Sizeof(g.Running)]
		_ = same[unsafe.Offsetof(c.first)-unsafe.Offsetof(g.First)]
		_ = same[unsafe.Sizeof(c.first)-unsafe.Sizeof(g.First)]
		_ = same[unsafe.Offsetof(c.last)-unsafe.Offsetof(g.Last)]
		_ = same[unsafe.Sizeof(c.last)-unsafe.Sizeof(g.Last)]
		_ = same[unsafe.Offsetof(c.end_milliseconds)-unsafe.Offsetof(g.EndMilliseconds)]
		_ = same[unsafe.Sizeof(c.end_milliseconds)-unsafe.Sizeof(g.EndMilliseconds)]
		_ = same[unsafe.Offsetof(c.end)-unsafe.Offsetof(g.End)]
		_ = same[unsafe.Sizeof(c.end)-unsafe.Sizeof(g.End)]
		_ = same[unsafe.Offsetof(c.held)-unsafe.Offsetof(g.Held)]
		_ = same[unsafe.Sizeof(c.held)-unsafe.Sizeof(g.Held)]
	}
	{
		var c C.struct_row_reply
		var g command.RowReply
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.limited)-unsafe.Offsetof(g.Limited)]
		_ = same[unsafe.Sizeof(c.limited)-unsafe.Sizeof(g.Limited)]
		_ = same[unsafe.Offsetof(c.limit)-unsafe.Offsetof(g.Limit)]
		_ = same[unsafe.Sizeof(c.limit)-unsafe.Sizeof(g.Limit)]
		_ = same[unsafe.Offsetof(c.remaining)-unsafe.Offsetof(g.Remaining)]
		_ = same[unsafe.Sizeof(c.remaining)-unsafe.Sizeof(g.Remaining)]
		_ = same[unsafe.Offsetof(c.wait)-unsafe.Offsetof(g.Wait)]
		_ = same[unsafe.Sizeof(c.wait)-unsafe.Sizeof(g.Wait)]
		_ = same[unsafe.Offsetof(c.reset_after)-unsafe.Offsetof(g.ResetAfter)]
		_ = same[unsafe.Sizeof(c.reset_after)-unsafe.Sizeof(g.ResetAfter)]
	}
	{
		var c C.struct_decimal
		var g command.Decimal
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof(g)]
		_ = same[unsafe.Offsetof(c.start)-unsafe.Offsetof(g.Start)]
		_ = same[unsafe.Sizeof(c.start)-unsafe.Sizeof(g.Start)]
		_ = same[unsafe.Offsetof(c.end)-unsafe.Offsetof(g.End)]
		_ = same[unsafe.Sizeof(c.end)-unsafe.Sizeof(g.End)]
		_ = same[unsafe.Offsetof(c.bytes)-unsafe.Offsetof(g.Bytes)]
		_ = same[unsafe.Sizeof(c.bytes)-unsafe.Sizeof(g.Bytes)]
	}
	{
		// A string in Go is a pointer to its bytes, then their number.
		var c C.struct_text
		_ = same[unsafe.Sizeof(c)-unsafe.Sizeof("")]
		_ = same[unsafe.Offsetof(c.bytes)]
	}
	_ = same[unsafe.Sizeof(C.struct_decided{})-unsafe.Sizeof(call.Row{})]

	_ = same[C.SECONDS_LENGTH-command.SecondsLength]
	_ = same[C.DECIMAL_CAPACITY-command.DecimalCapacity]
	_ = same[C.MESSAGE_CAPACITY-command.MessageCapacity]
	_ = same[C.WORDS_PER_ROW-command.WordsPerRow]
	_ = same[C.MAX_ROWS-command.MaxRows]
	_ = same[C.IN_SECONDS-command.InSeconds]
	_ = same[C.IN_ROWS-command.InRows]
	_ = same[C.FUNNEL-call.Funnel]
	_ = same[C.SLOTS-call.Slots]
	_ = same[C.QUOTA-call.Quota]
	_ = same[C.STORED_NOTHING-command.StoredNothing]
	_ = same[C.STORED_OF_KIND-command.StoredOfKind]
	_ = same[C.STORED_OTHER_TYPE-command.StoredOtherType]
	_ = same[C.WRITE_NOTHING-command.WriteNothing]
	_ = same[C.WRITE_STATE-command.WriteState]
	_ = same[C.WRITE_REMOVAL-command.WriteRemoval]
	_ = same[C.VERDICT_ERROR-command.Error]
	_ = same[C.VERDICT_PARSED-command.Parsed]
	_ = same[C.VERDICT_LIMITED-command.Limited]
	_ = same[C.VERDICT_PEEKED-command.Peeked]
	_ = same[C.VERDICT_ALLOWED-command.Allowed]
	_ = same[C.VERDICT_CHARGED-command.Charged]
	_ = same[C.VERDICT_REFUNDED-command.Refunded]
	_ = same[C.RESERVE-call.Reserve]
	_ = same[C.TAKE-call.Take]
	_ = same[C.PEEK-call.Peek]
	_ = same[C.CHARGE-call.Charge]
	_ = same[C.REFUND-call.Refund]
}
