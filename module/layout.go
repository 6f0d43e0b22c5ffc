package module

// #include "call.h"
import "C"

import (
	u "unsafe"

	"funnel/internal/call"
	"funnel/module/command"
)

// same has one element, so any index but 0 is a compile error. The first index compares offsets, or
// several numbers: a^b is not 0 if they differ. The second index compares sizes.
var same [1][1]int

// C and Go each declare the structures that cross the boundary. The compiler compares them here:
// the size of each structure, and the offset and the size of each field that both sides use.
func _() {
	{
		var c C.struct_call
		var g command.Call
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.operation)-u.Offsetof(g.Operation)][u.Sizeof(c.operation)-u.Sizeof(g.Operation)]
		_ = same[u.Offsetof(c.form)-u.Offsetof(g.Form)][u.Sizeof(c.form)-u.Sizeof(g.Form)]
		_ = same[u.Offsetof(c.length)-u.Offsetof(g.Length)][u.Sizeof(c.length)-u.Sizeof(g.Length)]
		_ = same[u.Offsetof(c.limit_surplus)-u.Offsetof(g.LimitSurplus)][u.Sizeof(c.limit_surplus)-u.Sizeof(g.LimitSurplus)]
		_ = same[u.Offsetof(c.now)-u.Offsetof(g.Now)][u.Sizeof(c.now)-u.Sizeof(g.Now)]
		_ = same[u.Offsetof(c.last_word)-u.Offsetof(g.LastWord)][u.Sizeof(c.last_word)-u.Sizeof(g.LastWord)]
		_ = same[u.Offsetof(c.verdict)-u.Offsetof(g.Verdict)][u.Sizeof(c.verdict)-u.Sizeof(g.Verdict)]
		_ = same[u.Offsetof(c.message)-u.Offsetof(g.Message)][u.Sizeof(c.message)-u.Sizeof(g.Message)]
		_ = same[u.Offsetof(c.writes)-u.Offsetof(g.Writes)][u.Sizeof(c.writes)-u.Sizeof(g.Writes)]
		_ = same[u.Offsetof(c.seconds)-u.Offsetof(g.Seconds)][u.Sizeof(c.seconds)-u.Sizeof(g.Seconds)]
		_ = same[u.Offsetof(c.limited)-u.Offsetof(g.Limited)][u.Sizeof(c.limited)-u.Sizeof(g.Limited)]
		_ = same[u.Offsetof(c.taken)-u.Offsetof(g.Taken)][u.Sizeof(c.taken)-u.Sizeof(g.Taken)]
		_ = same[u.Offsetof(c.wait)-u.Offsetof(g.Wait)][u.Sizeof(c.wait)-u.Sizeof(g.Wait)]
		_ = same[u.Offsetof(c.replies)-u.Offsetof(g.Replies)][u.Sizeof(c.replies)-u.Sizeof(g.Replies)]
		_ = same[u.Offsetof(c.rows)-u.Offsetof(g.Rows)][u.Sizeof(c.rows)-u.Sizeof(g.Rows)]
		_ = same[u.Offsetof(c.decided)-u.Offsetof(g.Decided)][u.Sizeof(c.decided)-u.Sizeof(g.Decided)]
	}
	{
		var c C.struct_row
		var g command.Row
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.words)-u.Offsetof(g.Words)][u.Sizeof(c.words)-u.Sizeof(g.Words)]
		_ = same[u.Offsetof(c.kind)-u.Offsetof(g.Kind)][u.Sizeof(c.kind)-u.Sizeof(g.Kind)]
		_ = same[u.Offsetof(c.stored)-u.Offsetof(g.Stored)][u.Sizeof(c.stored)-u.Sizeof(g.Stored)]
		_ = same[u.Offsetof(c.write)-u.Offsetof(g.Write)][u.Sizeof(c.write)-u.Sizeof(g.Write)]
		_ = same[u.Offsetof(c.string)-u.Offsetof(g.String)][u.Sizeof(c.string)-u.Sizeof(g.String)]
		_ = same[u.Offsetof(c.funnel)-u.Offsetof(g.Funnel)][u.Sizeof(c.funnel)-u.Sizeof(g.Funnel)]
		_ = same[u.Offsetof(c.slots)-u.Offsetof(g.Slots)][u.Sizeof(c.slots)-u.Sizeof(g.Slots)]
		_ = same[u.Offsetof(c.quota)-u.Offsetof(g.Quota)][u.Sizeof(c.quota)-u.Sizeof(g.Quota)]
	}
	{
		var c C.struct_string_key
		var g command.StringKey
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.stored)-u.Offsetof(g.Stored)][u.Sizeof(c.stored)-u.Sizeof(g.Stored)]
		_ = same[u.Offsetof(c.stored_expiry)-u.Offsetof(g.StoredExpiry)][u.Sizeof(c.stored_expiry)-u.Sizeof(g.StoredExpiry)]
		_ = same[u.Offsetof(c.value)-u.Offsetof(g.Value)][u.Sizeof(c.value)-u.Sizeof(g.Value)]
		_ = same[u.Offsetof(c.expiry_milliseconds)-u.Offsetof(g.ExpiryMilliseconds)]
		_ = same[0][u.Sizeof(c.expiry_milliseconds)-u.Sizeof(g.ExpiryMilliseconds)]
		_ = same[u.Offsetof(c.expiry)-u.Offsetof(g.Expiry)][u.Sizeof(c.expiry)-u.Sizeof(g.Expiry)]
	}
	{
		var c C.struct_funnel
		var g command.Funnel
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.has_receipt)-u.Offsetof(g.HasReceipt)][u.Sizeof(c.has_receipt)-u.Sizeof(g.HasReceipt)]
	}
	{
		var c C.struct_quota
		var g command.Quota
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.until)-u.Offsetof(g.Until)][u.Sizeof(c.until)-u.Sizeof(g.Until)]
	}
	{
		var c C.struct_slots
		var g command.Slots
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.limit)-u.Offsetof(g.Limit)][u.Sizeof(c.limit)-u.Sizeof(g.Limit)]
		_ = same[u.Offsetof(c.own)-u.Offsetof(g.Own)][u.Sizeof(c.own)-u.Sizeof(g.Own)]
		_ = same[u.Offsetof(c.running)-u.Offsetof(g.Running)][u.Sizeof(c.running)-u.Sizeof(g.Running)]
		_ = same[u.Offsetof(c.first)-u.Offsetof(g.First)][u.Sizeof(c.first)-u.Sizeof(g.First)]
		_ = same[u.Offsetof(c.last)-u.Offsetof(g.Last)][u.Sizeof(c.last)-u.Sizeof(g.Last)]
		_ = same[u.Offsetof(c.end_milliseconds)-u.Offsetof(g.EndMilliseconds)]
		_ = same[0][u.Sizeof(c.end_milliseconds)-u.Sizeof(g.EndMilliseconds)]
		_ = same[u.Offsetof(c.end)-u.Offsetof(g.End)][u.Sizeof(c.end)-u.Sizeof(g.End)]
		_ = same[u.Offsetof(c.held)-u.Offsetof(g.Held)][u.Sizeof(c.held)-u.Sizeof(g.Held)]
	}
	{
		var c C.struct_row_reply
		var g command.RowReply
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.limited)-u.Offsetof(g.Limited)][u.Sizeof(c.limited)-u.Sizeof(g.Limited)]
		_ = same[u.Offsetof(c.limit)-u.Offsetof(g.Limit)][u.Sizeof(c.limit)-u.Sizeof(g.Limit)]
		_ = same[u.Offsetof(c.remaining)-u.Offsetof(g.Remaining)][u.Sizeof(c.remaining)-u.Sizeof(g.Remaining)]
		_ = same[u.Offsetof(c.wait)-u.Offsetof(g.Wait)][u.Sizeof(c.wait)-u.Sizeof(g.Wait)]
		_ = same[u.Offsetof(c.reset_after)-u.Offsetof(g.ResetAfter)][u.Sizeof(c.reset_after)-u.Sizeof(g.ResetAfter)]
	}
	{
		var c C.struct_decimal
		var g command.Decimal
		_ = same[u.Sizeof(c)-u.Sizeof(g)]
		_ = same[u.Offsetof(c.start)-u.Offsetof(g.Start)][u.Sizeof(c.start)-u.Sizeof(g.Start)]
		_ = same[u.Offsetof(c.end)-u.Offsetof(g.End)][u.Sizeof(c.end)-u.Sizeof(g.End)]
		_ = same[u.Offsetof(c.bytes)-u.Offsetof(g.Bytes)][u.Sizeof(c.bytes)-u.Sizeof(g.Bytes)]
	}
	{
		// A string in Go is a pointer to its bytes, then their number.
		var c C.struct_text
		_ = same[u.Sizeof(c)-u.Sizeof("")]
		_ = same[u.Offsetof(c.bytes)]
	}
	// If a call.Row grows by 8 bytes, DECIDED_LENGTH in call.h grows by 1.
	_ = same[u.Sizeof(C.struct_decided{})-u.Sizeof(call.Row{})]

	// C calls these two with one pointer, whatever they take in Go.
	_, _ = (func(*command.Call))(command.Parse), (func(*command.Call))(command.Decide)

	_ = same[(C.SECONDS_LENGTH^command.SecondsLength)|(C.DECIMAL_CAPACITY^command.DecimalCapacity)]
	_ = same[(C.MESSAGE_CAPACITY^command.MessageCapacity)|(C.WORDS_PER_ROW^command.WordsPerRow)]
	_ = same[C.MAX_ROWS^command.MaxRows]
	_ = same[(C.IN_SECONDS^command.InSeconds)|(C.IN_ROWS^command.InRows)]
	_ = same[(C.FUNNEL^call.Funnel)|(C.SLOTS^call.Slots)|(C.QUOTA^call.Quota)]
	_ = same[C.KIND_COUNT^call.KindCount]
	_ = same[(C.STORED_NOTHING^command.StoredNothing)|(C.STORED_OF_KIND^command.StoredOfKind)]
	_ = same[(C.STORED_OTHER_TYPE^command.StoredOtherType)|(C.STORED_IN_USE^command.StoredInUse)]
	_ = same[(C.WRITE_NOTHING^command.WriteNothing)|(C.WRITE_STATE^command.WriteState)]
	_ = same[C.WRITE_REMOVAL^command.WriteRemoval]
	_ = same[(C.VERDICT_ERROR^command.Error)|(C.VERDICT_PARSED^command.Parsed)|(C.VERDICT_LIMITED^command.Limited)]
	_ = same[(C.VERDICT_PEEKED^command.Peeked)|(C.VERDICT_ALLOWED^command.Allowed)|(C.VERDICT_CHARGED^command.Charged)]
	_ = same[C.VERDICT_REFUNDED^command.Refunded]
	_ = same[C.VERDICT_COUNT-1-command.Refunded] // a verdict after it is missing above
	_ = same[(C.RESERVE^call.Reserve)|(C.TAKE^call.Take)|(C.PEEK^call.Peek)|(C.CHARGE^call.Charge)|(C.REFUND^call.Refund)]
}
