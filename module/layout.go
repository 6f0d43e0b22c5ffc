package module

// #include "call.h"
import "C"

import (
	"unsafe"

	"funnel/internal/call"
	"funnel/module/answer"
)

type none struct{}

// C and Go each declare the structures that cross the boundary. The compiler compares
// them here: an array of one length is not assignable to an array of another. A field that both
// use has an array of both its offset and its size.
var (
	cCall C.struct_call
	gCall answer.Call

	_ [unsafe.Sizeof(cCall)]int                                                      = [unsafe.Sizeof(gCall)]int{}
	_ [unsafe.Offsetof(cCall.operation)][unsafe.Sizeof(cCall.operation)]none         = [unsafe.Offsetof(gCall.Operation)][unsafe.Sizeof(gCall.Operation)]none{}
	_ [unsafe.Offsetof(cCall.form)][unsafe.Sizeof(cCall.form)]none                   = [unsafe.Offsetof(gCall.Form)][unsafe.Sizeof(gCall.Form)]none{}
	_ [unsafe.Offsetof(cCall.length)][unsafe.Sizeof(cCall.length)]none               = [unsafe.Offsetof(gCall.Length)][unsafe.Sizeof(gCall.Length)]none{}
	_ [unsafe.Offsetof(cCall.limit_surplus)][unsafe.Sizeof(cCall.limit_surplus)]none = [unsafe.Offsetof(gCall.LimitSurplus)][unsafe.Sizeof(gCall.LimitSurplus)]none{}
	_ [unsafe.Offsetof(cCall.now)][unsafe.Sizeof(cCall.now)]none                     = [unsafe.Offsetof(gCall.Now)][unsafe.Sizeof(gCall.Now)]none{}
	_ [unsafe.Offsetof(cCall.last_word)][unsafe.Sizeof(cCall.last_word)]none         = [unsafe.Offsetof(gCall.LastWord)][unsafe.Sizeof(gCall.LastWord)]none{}
	_ [unsafe.Offsetof(cCall.verdict)][unsafe.Sizeof(cCall.verdict)]none             = [unsafe.Offsetof(gCall.Verdict)][unsafe.Sizeof(gCall.Verdict)]none{}
	_ [unsafe.Offsetof(cCall.message)][unsafe.Sizeof(cCall.message)]none             = [unsafe.Offsetof(gCall.Message)][unsafe.Sizeof(gCall.Message)]none{}
	_ [unsafe.Offsetof(cCall.writes)][unsafe.Sizeof(cCall.writes)]none               = [unsafe.Offsetof(gCall.Writes)][unsafe.Sizeof(gCall.Writes)]none{}
	_ [unsafe.Offsetof(cCall.seconds)][unsafe.Sizeof(cCall.seconds)]none             = [unsafe.Offsetof(gCall.Seconds)][unsafe.Sizeof(gCall.Seconds)]none{}
	_ [unsafe.Offsetof(cCall.limited)][unsafe.Sizeof(cCall.limited)]none             = [unsafe.Offsetof(gCall.Limited)][unsafe.Sizeof(gCall.Limited)]none{}
	_ [unsafe.Offsetof(cCall.taken)][unsafe.Sizeof(cCall.taken)]none                 = [unsafe.Offsetof(gCall.Taken)][unsafe.Sizeof(gCall.Taken)]none{}
	_ [unsafe.Offsetof(cCall.wait)][unsafe.Sizeof(cCall.wait)]none                   = [unsafe.Offsetof(gCall.Wait)][unsafe.Sizeof(gCall.Wait)]none{}
	_ [unsafe.Offsetof(cCall.funnels)][unsafe.Sizeof(cCall.funnels)]none             = [unsafe.Offsetof(gCall.Funnels)][unsafe.Sizeof(gCall.Funnels)]none{}
	_ [unsafe.Offsetof(cCall.rows)][unsafe.Sizeof(cCall.rows)]none                   = [unsafe.Offsetof(gCall.Rows)][unsafe.Sizeof(gCall.Rows)]none{}

	cFunnel C.struct_funnel
	gFunnel answer.Funnel

	_ [unsafe.Sizeof(cFunnel)]int                                                                    = [unsafe.Sizeof(gFunnel)]int{}
	_ [unsafe.Offsetof(cFunnel.key)][unsafe.Sizeof(cFunnel.key)]none                                 = [unsafe.Offsetof(gFunnel.Key)][unsafe.Sizeof(gFunnel.Key)]none{}
	_ [unsafe.Offsetof(cFunnel.capacity)][unsafe.Sizeof(cFunnel.capacity)]none                       = [unsafe.Offsetof(gFunnel.Capacity)][unsafe.Sizeof(gFunnel.Capacity)]none{}
	_ [unsafe.Offsetof(cFunnel.count)][unsafe.Sizeof(cFunnel.count)]none                             = [unsafe.Offsetof(gFunnel.Count)][unsafe.Sizeof(gFunnel.Count)]none{}
	_ [unsafe.Offsetof(cFunnel.period)][unsafe.Sizeof(cFunnel.period)]none                           = [unsafe.Offsetof(gFunnel.Period)][unsafe.Sizeof(gFunnel.Period)]none{}
	_ [unsafe.Offsetof(cFunnel.quantity)][unsafe.Sizeof(cFunnel.quantity)]none                       = [unsafe.Offsetof(gFunnel.Quantity)][unsafe.Sizeof(gFunnel.Quantity)]none{}
	_ [unsafe.Offsetof(cFunnel.kind)][unsafe.Sizeof(cFunnel.kind)]none                               = [unsafe.Offsetof(gFunnel.Kind)][unsafe.Sizeof(gFunnel.Kind)]none{}
	_ [unsafe.Offsetof(cFunnel.slots)][unsafe.Sizeof(cFunnel.slots)]none                             = [unsafe.Offsetof(gFunnel.Slots)][unsafe.Sizeof(gFunnel.Slots)]none{}
	_ [unsafe.Offsetof(cFunnel.stored)][unsafe.Sizeof(cFunnel.stored)]none                           = [unsafe.Offsetof(gFunnel.Stored)][unsafe.Sizeof(gFunnel.Stored)]none{}
	_ [unsafe.Offsetof(cFunnel.write)][unsafe.Sizeof(cFunnel.write)]none                             = [unsafe.Offsetof(gFunnel.Write)][unsafe.Sizeof(gFunnel.Write)]none{}
	_ [unsafe.Offsetof(cFunnel.stored_value)][unsafe.Sizeof(cFunnel.stored_value)]none               = [unsafe.Offsetof(gFunnel.StoredValue)][unsafe.Sizeof(gFunnel.StoredValue)]none{}
	_ [unsafe.Offsetof(cFunnel.expiry_milliseconds)][unsafe.Sizeof(cFunnel.expiry_milliseconds)]none = [unsafe.Offsetof(gFunnel.ExpiryMilliseconds)][unsafe.Sizeof(gFunnel.ExpiryMilliseconds)]none{}
	_ [unsafe.Offsetof(cFunnel.tat)][unsafe.Sizeof(cFunnel.tat)]none                                 = [unsafe.Offsetof(gFunnel.TAT)][unsafe.Sizeof(gFunnel.TAT)]none{}
	_ [unsafe.Offsetof(cFunnel.expiry)][unsafe.Sizeof(cFunnel.expiry)]none                           = [unsafe.Offsetof(gFunnel.Expiry)][unsafe.Sizeof(gFunnel.Expiry)]none{}

	cSlots C.struct_slots
	gSlots answer.Slots

	_ [unsafe.Sizeof(cSlots)]int                                           = [unsafe.Sizeof(gSlots)]int{}
	_ [unsafe.Offsetof(cSlots.limit)][unsafe.Sizeof(cSlots.limit)]none     = [unsafe.Offsetof(gSlots.Limit)][unsafe.Sizeof(gSlots.Limit)]none{}
	_ [unsafe.Offsetof(cSlots.running)][unsafe.Sizeof(cSlots.running)]none = [unsafe.Offsetof(gSlots.Running)][unsafe.Sizeof(gSlots.Running)]none{}
	_ [unsafe.Offsetof(cSlots.own)][unsafe.Sizeof(cSlots.own)]none         = [unsafe.Offsetof(gSlots.Own)][unsafe.Sizeof(gSlots.Own)]none{}
	_ [unsafe.Offsetof(cSlots.first)][unsafe.Sizeof(cSlots.first)]none     = [unsafe.Offsetof(gSlots.First)][unsafe.Sizeof(gSlots.First)]none{}
	_ [unsafe.Offsetof(cSlots.last)][unsafe.Sizeof(cSlots.last)]none       = [unsafe.Offsetof(gSlots.Last)][unsafe.Sizeof(gSlots.Last)]none{}

	cRow C.struct_row
	gRow answer.Row

	_ [unsafe.Sizeof(cRow)]int                                                 = [unsafe.Sizeof(gRow)]int{}
	_ [unsafe.Offsetof(cRow.limited)][unsafe.Sizeof(cRow.limited)]none         = [unsafe.Offsetof(gRow.Limited)][unsafe.Sizeof(gRow.Limited)]none{}
	_ [unsafe.Offsetof(cRow.limit)][unsafe.Sizeof(cRow.limit)]none             = [unsafe.Offsetof(gRow.Limit)][unsafe.Sizeof(gRow.Limit)]none{}
	_ [unsafe.Offsetof(cRow.remaining)][unsafe.Sizeof(cRow.remaining)]none     = [unsafe.Offsetof(gRow.Remaining)][unsafe.Sizeof(gRow.Remaining)]none{}
	_ [unsafe.Offsetof(cRow.wait)][unsafe.Sizeof(cRow.wait)]none               = [unsafe.Offsetof(gRow.Wait)][unsafe.Sizeof(gRow.Wait)]none{}
	_ [unsafe.Offsetof(cRow.reset_after)][unsafe.Sizeof(cRow.reset_after)]none = [unsafe.Offsetof(gRow.ResetAfter)][unsafe.Sizeof(gRow.ResetAfter)]none{}
	_ [unsafe.Offsetof(cRow.has_receipt)][unsafe.Sizeof(cRow.has_receipt)]none = [unsafe.Offsetof(gRow.HasReceipt)][unsafe.Sizeof(gRow.HasReceipt)]none{}

	cDecimal C.struct_decimal
	gDecimal answer.Decimal

	_ [unsafe.Sizeof(cDecimal)]int                                         = [unsafe.Sizeof(gDecimal)]int{}
	_ [unsafe.Offsetof(cDecimal.start)][unsafe.Sizeof(cDecimal.start)]none = [unsafe.Offsetof(gDecimal.Start)][unsafe.Sizeof(gDecimal.Start)]none{}
	_ [unsafe.Offsetof(cDecimal.end)][unsafe.Sizeof(cDecimal.end)]none     = [unsafe.Offsetof(gDecimal.End)][unsafe.Sizeof(gDecimal.End)]none{}
	_ [unsafe.Offsetof(cDecimal.bytes)][unsafe.Sizeof(cDecimal.bytes)]none = [unsafe.Offsetof(gDecimal.Bytes)][unsafe.Sizeof(gDecimal.Bytes)]none{}

	// A string in Go is a pointer to its bytes, then their number.
	cText C.struct_text
	_     [unsafe.Sizeof(cText)]int         = [unsafe.Sizeof("")]int{}
	_     [unsafe.Offsetof(cText.bytes)]int = [0]int{}

	_ [unsafe.Sizeof(C.struct_item{})]int = [unsafe.Sizeof(call.Row{})]int{}

	_ [C.SECONDS_LENGTH]int    = [answer.SecondsLength]int{}
	_ [C.IN_SECONDS]int        = [answer.InSeconds]int{}
	_ [C.IN_ROWS]int           = [answer.InRows]int{}
	_ [C.DECIMAL_CAPACITY]int  = [answer.DecimalCapacity]int{}
	_ [C.MESSAGE_CAPACITY]int  = [answer.MessageCapacity]int{}
	_ [C.MOST_FUNNELS]int      = [answer.MostFunnels]int{}
	_ [C.STORED_NOTHING]int    = [answer.StoredNothing]int{}
	_ [C.FUNNEL]int            = [answer.FunnelKind]int{}
	_ [C.SLOTS]int             = [answer.SlotsKind]int{}
	_ [C.STORED_VALUE]int      = [answer.StoredOfKind]int{}
	_ [C.STORED_OTHER_TYPE]int = [answer.StoredOtherType]int{}
	_ [C.WRITE_NOTHING]int     = [answer.WriteNothing]int{}
	_ [C.WRITE_TAT]int         = [answer.WriteTAT]int{}
	_ [C.WRITE_DELETION]int    = [answer.WriteDeletion]int{}
	_ [C.VERDICT_ERROR]int     = [answer.Error]int{}
	_ [C.VERDICT_PARSED]int    = [answer.Parsed]int{}
	_ [C.VERDICT_LIMITED]int   = [answer.Limited]int{}
	_ [C.VERDICT_PEEKED]int    = [answer.Peeked]int{}
	_ [C.VERDICT_ALLOWED]int   = [answer.Allowed]int{}
	_ [C.VERDICT_CHARGED]int   = [answer.Charged]int{}
	_ [C.VERDICT_REFUNDED]int  = [answer.Refunded]int{}
	_ [C.RESERVE]int           = [call.Reserve]int{}
	_ [C.TAKE]int              = [call.Take]int{}
	_ [C.PEEK]int              = [call.Peek]int{}
	_ [C.CHARGE]int            = [call.Charge]int{}
	_ [C.REFUND]int            = [call.Refund]int{}
)
