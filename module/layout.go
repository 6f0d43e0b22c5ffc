package module

// #include "call.h"
import "C"

import (
	"unsafe"

	"funnel/gcra"
	"funnel/module/answer"
)

// C and Go each declare the structures that cross the boundary. The compiler compares
// them here: an array of one length is not assignable to an array of another.
var (
	cCall C.struct_call
	gCall answer.Call

	_ [unsafe.Sizeof(cCall)]int                 = [unsafe.Sizeof(gCall)]int{}
	_ [unsafe.Offsetof(cCall.operation)]int     = [unsafe.Offsetof(gCall.Operation)]int{}
	_ [unsafe.Sizeof(cCall.operation)]int       = [unsafe.Sizeof(gCall.Operation)]int{}
	_ [unsafe.Offsetof(cCall.form)]int          = [unsafe.Offsetof(gCall.Form)]int{}
	_ [unsafe.Sizeof(cCall.form)]int            = [unsafe.Sizeof(gCall.Form)]int{}
	_ [unsafe.Offsetof(cCall.length)]int        = [unsafe.Offsetof(gCall.Length)]int{}
	_ [unsafe.Sizeof(cCall.length)]int          = [unsafe.Sizeof(gCall.Length)]int{}
	_ [unsafe.Offsetof(cCall.limit_surplus)]int = [unsafe.Offsetof(gCall.LimitSurplus)]int{}
	_ [unsafe.Sizeof(cCall.limit_surplus)]int   = [unsafe.Sizeof(gCall.LimitSurplus)]int{}
	_ [unsafe.Offsetof(cCall.now)]int           = [unsafe.Offsetof(gCall.Now)]int{}
	_ [unsafe.Sizeof(cCall.now)]int             = [unsafe.Sizeof(gCall.Now)]int{}
	_ [unsafe.Offsetof(cCall.last_word)]int     = [unsafe.Offsetof(gCall.LastWord)]int{}
	_ [unsafe.Sizeof(cCall.last_word)]int       = [unsafe.Sizeof(gCall.LastWord)]int{}
	_ [unsafe.Offsetof(cCall.last)]int          = [unsafe.Offsetof(gCall.Last)]int{}
	_ [unsafe.Sizeof(cCall.last)]int            = [unsafe.Sizeof(gCall.Last)]int{}
	_ [unsafe.Offsetof(cCall.outcome)]int       = [unsafe.Offsetof(gCall.Outcome)]int{}
	_ [unsafe.Sizeof(cCall.outcome)]int         = [unsafe.Sizeof(gCall.Outcome)]int{}
	_ [unsafe.Offsetof(cCall.writes)]int        = [unsafe.Offsetof(gCall.Writes)]int{}
	_ [unsafe.Sizeof(cCall.writes)]int          = [unsafe.Sizeof(gCall.Writes)]int{}
	_ [unsafe.Offsetof(cCall.seconds)]int       = [unsafe.Offsetof(gCall.Seconds)]int{}
	_ [unsafe.Sizeof(cCall.seconds)]int         = [unsafe.Sizeof(gCall.Seconds)]int{}
	_ [unsafe.Offsetof(cCall.limited)]int       = [unsafe.Offsetof(gCall.Limited)]int{}
	_ [unsafe.Sizeof(cCall.limited)]int         = [unsafe.Sizeof(gCall.Limited)]int{}
	_ [unsafe.Offsetof(cCall.taken)]int         = [unsafe.Offsetof(gCall.Taken)]int{}
	_ [unsafe.Sizeof(cCall.taken)]int           = [unsafe.Sizeof(gCall.Taken)]int{}
	_ [unsafe.Offsetof(cCall.wait)]int          = [unsafe.Offsetof(gCall.Wait)]int{}
	_ [unsafe.Sizeof(cCall.wait)]int            = [unsafe.Sizeof(gCall.Wait)]int{}
	_ [unsafe.Offsetof(cCall.parts)]int         = [unsafe.Offsetof(gCall.Parts)]int{}
	_ [unsafe.Sizeof(cCall.parts)]int           = [unsafe.Sizeof(gCall.Parts)]int{}
	_ [unsafe.Offsetof(cCall.funnels)]int       = [unsafe.Offsetof(gCall.Funnels)]int{}
	_ [unsafe.Sizeof(cCall.funnels)]int         = [unsafe.Sizeof(gCall.Funnels)]int{}
	_ [unsafe.Offsetof(cCall.rows)]int          = [unsafe.Offsetof(gCall.Rows)]int{}
	_ [unsafe.Sizeof(cCall.rows)]int            = [unsafe.Sizeof(gCall.Rows)]int{}

	cFunnel C.struct_funnel
	gFunnel answer.Funnel

	_ [unsafe.Sizeof(cFunnel)]int                       = [unsafe.Sizeof(gFunnel)]int{}
	_ [unsafe.Offsetof(cFunnel.key)]int                 = [unsafe.Offsetof(gFunnel.Key)]int{}
	_ [unsafe.Sizeof(cFunnel.key)]int                   = [unsafe.Sizeof(gFunnel.Key)]int{}
	_ [unsafe.Offsetof(cFunnel.capacity)]int            = [unsafe.Offsetof(gFunnel.Capacity)]int{}
	_ [unsafe.Sizeof(cFunnel.capacity)]int              = [unsafe.Sizeof(gFunnel.Capacity)]int{}
	_ [unsafe.Offsetof(cFunnel.count)]int               = [unsafe.Offsetof(gFunnel.Count)]int{}
	_ [unsafe.Sizeof(cFunnel.count)]int                 = [unsafe.Sizeof(gFunnel.Count)]int{}
	_ [unsafe.Offsetof(cFunnel.period)]int              = [unsafe.Offsetof(gFunnel.Period)]int{}
	_ [unsafe.Sizeof(cFunnel.period)]int                = [unsafe.Sizeof(gFunnel.Period)]int{}
	_ [unsafe.Offsetof(cFunnel.quantity)]int            = [unsafe.Offsetof(gFunnel.Quantity)]int{}
	_ [unsafe.Sizeof(cFunnel.quantity)]int              = [unsafe.Sizeof(gFunnel.Quantity)]int{}
	_ [unsafe.Offsetof(cFunnel.compared_with)]int       = [unsafe.Offsetof(gFunnel.ComparedWith)]int{}
	_ [unsafe.Sizeof(cFunnel.compared_with)]int         = [unsafe.Sizeof(gFunnel.ComparedWith)]int{}
	_ [unsafe.Offsetof(cFunnel.alike)]int               = [unsafe.Offsetof(gFunnel.Alike)]int{}
	_ [unsafe.Sizeof(cFunnel.alike)]int                 = [unsafe.Sizeof(gFunnel.Alike)]int{}
	_ [unsafe.Offsetof(cFunnel.stored)]int              = [unsafe.Offsetof(gFunnel.Stored)]int{}
	_ [unsafe.Sizeof(cFunnel.stored)]int                = [unsafe.Sizeof(gFunnel.Stored)]int{}
	_ [unsafe.Offsetof(cFunnel.write)]int               = [unsafe.Offsetof(gFunnel.Write)]int{}
	_ [unsafe.Sizeof(cFunnel.write)]int                 = [unsafe.Sizeof(gFunnel.Write)]int{}
	_ [unsafe.Offsetof(cFunnel.stored_value)]int        = [unsafe.Offsetof(gFunnel.StoredValue)]int{}
	_ [unsafe.Sizeof(cFunnel.stored_value)]int          = [unsafe.Sizeof(gFunnel.StoredValue)]int{}
	_ [unsafe.Offsetof(cFunnel.expiry_milliseconds)]int = [unsafe.Offsetof(gFunnel.ExpiryMilliseconds)]int{}
	_ [unsafe.Sizeof(cFunnel.expiry_milliseconds)]int   = [unsafe.Sizeof(gFunnel.ExpiryMilliseconds)]int{}
	_ [unsafe.Offsetof(cFunnel.tat)]int                 = [unsafe.Offsetof(gFunnel.TAT)]int{}
	_ [unsafe.Sizeof(cFunnel.tat)]int                   = [unsafe.Sizeof(gFunnel.TAT)]int{}
	_ [unsafe.Offsetof(cFunnel.expiry)]int              = [unsafe.Offsetof(gFunnel.Expiry)]int{}
	_ [unsafe.Sizeof(cFunnel.expiry)]int                = [unsafe.Sizeof(gFunnel.Expiry)]int{}

	cOutcome C.struct_outcome
	gOutcome answer.Outcome

	_ [unsafe.Sizeof(cOutcome)]int           = [unsafe.Sizeof(gOutcome)]int{}
	_ [unsafe.Offsetof(cOutcome.verdict)]int = [unsafe.Offsetof(gOutcome.Verdict)]int{}
	_ [unsafe.Sizeof(cOutcome.verdict)]int   = [unsafe.Sizeof(gOutcome.Verdict)]int{}
	_ [unsafe.Offsetof(cOutcome.funnel)]int  = [unsafe.Offsetof(gOutcome.Funnel)]int{}
	_ [unsafe.Sizeof(cOutcome.funnel)]int    = [unsafe.Sizeof(gOutcome.Funnel)]int{}
	_ [unsafe.Offsetof(cOutcome.message)]int = [unsafe.Offsetof(gOutcome.Message)]int{}
	_ [unsafe.Sizeof(cOutcome.message)]int   = [unsafe.Sizeof(gOutcome.Message)]int{}

	cRow C.struct_row
	gRow answer.Row

	_ [unsafe.Sizeof(cRow)]int               = [unsafe.Sizeof(gRow)]int{}
	_ [unsafe.Offsetof(cRow.limited)]int     = [unsafe.Offsetof(gRow.Limited)]int{}
	_ [unsafe.Sizeof(cRow.limited)]int       = [unsafe.Sizeof(gRow.Limited)]int{}
	_ [unsafe.Offsetof(cRow.limit)]int       = [unsafe.Offsetof(gRow.Limit)]int{}
	_ [unsafe.Sizeof(cRow.limit)]int         = [unsafe.Sizeof(gRow.Limit)]int{}
	_ [unsafe.Offsetof(cRow.remaining)]int   = [unsafe.Offsetof(gRow.Remaining)]int{}
	_ [unsafe.Sizeof(cRow.remaining)]int     = [unsafe.Sizeof(gRow.Remaining)]int{}
	_ [unsafe.Offsetof(cRow.wait)]int        = [unsafe.Offsetof(gRow.Wait)]int{}
	_ [unsafe.Sizeof(cRow.wait)]int          = [unsafe.Sizeof(gRow.Wait)]int{}
	_ [unsafe.Offsetof(cRow.reset_after)]int = [unsafe.Offsetof(gRow.ResetAfter)]int{}
	_ [unsafe.Sizeof(cRow.reset_after)]int   = [unsafe.Sizeof(gRow.ResetAfter)]int{}

	_ [unsafe.Offsetof(cRow.has_receipt)]int = [unsafe.Offsetof(gRow.HasReceipt)]int{}
	_ [unsafe.Sizeof(cRow.has_receipt)]int   = [unsafe.Sizeof(gRow.HasReceipt)]int{}

	cDecimal C.struct_decimal
	gDecimal answer.Decimal

	_ [unsafe.Sizeof(cDecimal)]int         = [unsafe.Sizeof(gDecimal)]int{}
	_ [unsafe.Offsetof(cDecimal.start)]int = [unsafe.Offsetof(gDecimal.Start)]int{}
	_ [unsafe.Sizeof(cDecimal.start)]int   = [unsafe.Sizeof(gDecimal.Start)]int{}
	_ [unsafe.Offsetof(cDecimal.end)]int   = [unsafe.Offsetof(gDecimal.End)]int{}
	_ [unsafe.Sizeof(cDecimal.end)]int     = [unsafe.Sizeof(gDecimal.End)]int{}
	_ [unsafe.Offsetof(cDecimal.bytes)]int = [unsafe.Offsetof(gDecimal.Bytes)]int{}
	_ [unsafe.Sizeof(cDecimal.bytes)]int   = [unsafe.Sizeof(gDecimal.Bytes)]int{}

	// A string in Go is a pointer to its bytes, then their number.
	cText C.struct_text
	_     [unsafe.Sizeof(cText)]int         = [unsafe.Sizeof("")]int{}
	_     [unsafe.Offsetof(cText.bytes)]int = [0]int{}

	_ [unsafe.Sizeof(C.struct_part{})]int = [unsafe.Sizeof(gcra.Part{})]int{}

	_ [C.SECONDS_LENGTH]int    = [answer.SecondsLength]int{}
	_ [C.IN_SECONDS]int        = [answer.InSeconds]int{}
	_ [C.IN_ROWS]int           = [answer.InRows]int{}
	_ [C.DECIMAL_CAPACITY]int  = [answer.DecimalCapacity]int{}
	_ [C.MESSAGE_CAPACITY]int  = [answer.MessageCapacity]int{}
	_ [C.MOST_FUNNELS]int      = [answer.MostFunnels]int{}
	_ [C.STORED_NOTHING]int    = [answer.StoredNothing]int{}
	_ [C.STORED_STRING]int     = [answer.StoredString]int{}
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
	_ [C.RESERVE]int           = [gcra.Reserve]int{}
	_ [C.TAKE]int              = [gcra.Take]int{}
	_ [C.PEEK]int              = [gcra.Peek]int{}
	_ [C.CHARGE]int            = [gcra.Charge]int{}
	_ [C.REFUND]int            = [gcra.Refund]int{}
)
