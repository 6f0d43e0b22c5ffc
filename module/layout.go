package module

// #include "call.h"
import "C"

import (
	"unsafe"

	"funnel/gcra"
	"funnel/module/throttle"
)

// C and Go each have their own words for what crosses the boundary. The compiler
// compares them here: an array of one length is no array of another.
var (
	cCall C.struct_throttle_call
	gCall throttle.Call

	_ [unsafe.Sizeof(cCall)]int                 = [unsafe.Sizeof(gCall)]int{}
	_ [unsafe.Offsetof(cCall.limit_surplus)]int = [unsafe.Offsetof(gCall.LimitSurplus)]int{}
	_ [unsafe.Sizeof(cCall.limit_surplus)]int   = [unsafe.Sizeof(gCall.LimitSurplus)]int{}
	_ [unsafe.Offsetof(cCall.now)]int           = [unsafe.Offsetof(gCall.Now)]int{}
	_ [unsafe.Sizeof(cCall.now)]int             = [unsafe.Sizeof(gCall.Now)]int{}
	_ [unsafe.Offsetof(cCall.funnel)]int        = [unsafe.Offsetof(gCall.Funnel)]int{}
	_ [unsafe.Sizeof(cCall.funnel)]int          = [unsafe.Sizeof(gCall.Funnel)]int{}
	_ [unsafe.Offsetof(cCall.ask)]int           = [unsafe.Offsetof(gCall.Ask)]int{}
	_ [unsafe.Sizeof(cCall.ask)]int             = [unsafe.Sizeof(gCall.Ask)]int{}
	_ [unsafe.Offsetof(cCall.outcome)]int       = [unsafe.Offsetof(gCall.Outcome)]int{}
	_ [unsafe.Sizeof(cCall.outcome)]int         = [unsafe.Sizeof(gCall.Outcome)]int{}
	_ [unsafe.Offsetof(cCall.reply)]int         = [unsafe.Offsetof(gCall.Reply)]int{}
	_ [unsafe.Sizeof(cCall.reply)]int           = [unsafe.Sizeof(gCall.Reply)]int{}

	cFunnelsCall C.struct_funnels_call
	gFunnelsCall throttle.FunnelsCall

	_ [unsafe.Sizeof(cFunnelsCall)]int                 = [unsafe.Sizeof(gFunnelsCall)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.command)]int       = [unsafe.Offsetof(gFunnelsCall.Command)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.command)]int         = [unsafe.Sizeof(gFunnelsCall.Command)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.length)]int        = [unsafe.Offsetof(gFunnelsCall.Length)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.length)]int          = [unsafe.Sizeof(gFunnelsCall.Length)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.limit_surplus)]int = [unsafe.Offsetof(gFunnelsCall.LimitSurplus)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.limit_surplus)]int   = [unsafe.Sizeof(gFunnelsCall.LimitSurplus)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.now)]int           = [unsafe.Offsetof(gFunnelsCall.Now)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.now)]int             = [unsafe.Sizeof(gFunnelsCall.Now)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.max_wait)]int      = [unsafe.Offsetof(gFunnelsCall.MaxWait)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.max_wait)]int        = [unsafe.Sizeof(gFunnelsCall.MaxWait)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.longest_wait)]int  = [unsafe.Offsetof(gFunnelsCall.LongestWait)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.longest_wait)]int    = [unsafe.Sizeof(gFunnelsCall.LongestWait)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.outcome)]int       = [unsafe.Offsetof(gFunnelsCall.Outcome)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.outcome)]int         = [unsafe.Sizeof(gFunnelsCall.Outcome)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.writes)]int        = [unsafe.Offsetof(gFunnelsCall.Writes)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.writes)]int          = [unsafe.Sizeof(gFunnelsCall.Writes)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.limited)]int       = [unsafe.Offsetof(gFunnelsCall.Limited)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.limited)]int         = [unsafe.Sizeof(gFunnelsCall.Limited)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.wait)]int          = [unsafe.Offsetof(gFunnelsCall.Wait)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.wait)]int            = [unsafe.Sizeof(gFunnelsCall.Wait)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.asks)]int          = [unsafe.Offsetof(gFunnelsCall.Asks)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.asks)]int            = [unsafe.Sizeof(gFunnelsCall.Asks)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.funnels)]int       = [unsafe.Offsetof(gFunnelsCall.Funnels)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.funnels)]int         = [unsafe.Sizeof(gFunnelsCall.Funnels)]int{}
	_ [unsafe.Offsetof(cFunnelsCall.rows)]int          = [unsafe.Offsetof(gFunnelsCall.Rows)]int{}
	_ [unsafe.Sizeof(cFunnelsCall.rows)]int            = [unsafe.Sizeof(gFunnelsCall.Rows)]int{}

	cFunnel C.struct_funnel
	gFunnel throttle.Funnel

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
	gOutcome throttle.Outcome

	_ [unsafe.Sizeof(cOutcome)]int           = [unsafe.Sizeof(gOutcome)]int{}
	_ [unsafe.Offsetof(cOutcome.verdict)]int = [unsafe.Offsetof(gOutcome.Verdict)]int{}
	_ [unsafe.Sizeof(cOutcome.verdict)]int   = [unsafe.Sizeof(gOutcome.Verdict)]int{}
	_ [unsafe.Offsetof(cOutcome.funnel)]int  = [unsafe.Offsetof(gOutcome.Funnel)]int{}
	_ [unsafe.Sizeof(cOutcome.funnel)]int    = [unsafe.Sizeof(gOutcome.Funnel)]int{}
	_ [unsafe.Offsetof(cOutcome.message)]int = [unsafe.Offsetof(gOutcome.Message)]int{}
	_ [unsafe.Sizeof(cOutcome.message)]int   = [unsafe.Sizeof(gOutcome.Message)]int{}

	cRow C.struct_row
	gRow throttle.Row

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

	cDecimal C.struct_decimal
	gDecimal throttle.Decimal

	_ [unsafe.Sizeof(cDecimal)]int         = [unsafe.Sizeof(gDecimal)]int{}
	_ [unsafe.Offsetof(cDecimal.start)]int = [unsafe.Offsetof(gDecimal.Start)]int{}
	_ [unsafe.Sizeof(cDecimal.start)]int   = [unsafe.Sizeof(gDecimal.Start)]int{}
	_ [unsafe.Offsetof(cDecimal.end)]int   = [unsafe.Offsetof(gDecimal.End)]int{}
	_ [unsafe.Sizeof(cDecimal.end)]int     = [unsafe.Sizeof(gDecimal.End)]int{}
	_ [unsafe.Offsetof(cDecimal.bytes)]int = [unsafe.Offsetof(gDecimal.Bytes)]int{}
	_ [unsafe.Sizeof(cDecimal.bytes)]int   = [unsafe.Sizeof(gDecimal.Bytes)]int{}

	// A string in Go is where its bytes are, then how many.
	cText C.struct_text
	_     [unsafe.Sizeof(cText)]int         = [unsafe.Sizeof("")]int{}
	_     [unsafe.Offsetof(cText.bytes)]int = [0]int{}

	_ [unsafe.Sizeof(C.struct_ask{})]int = [unsafe.Sizeof(gcra.Ask{})]int{}

	_ [C.REPLY_LENGTH]int      = [throttle.ReplyLength]int{}
	_ [C.DECIMAL_CAPACITY]int  = [throttle.DecimalCapacity]int{}
	_ [C.MESSAGE_CAPACITY]int  = [throttle.MessageCapacity]int{}
	_ [C.MOST_FUNNELS]int      = [throttle.MostFunnels]int{}
	_ [C.STORED_NOTHING]int    = [throttle.StoredNothing]int{}
	_ [C.STORED_STRING]int     = [throttle.StoredString]int{}
	_ [C.STORED_OTHER_TYPE]int = [throttle.StoredOtherType]int{}
	_ [C.WRITE_NOTHING]int     = [throttle.WriteNothing]int{}
	_ [C.WRITE_TAT]int         = [throttle.WriteTAT]int{}
	_ [C.WRITE_DELETION]int    = [throttle.WriteDeletion]int{}
	_ [C.VERDICT_ERROR]int     = [throttle.Error]int{}
	_ [C.VERDICT_PARSED]int    = [throttle.Parsed]int{}
	_ [C.VERDICT_LIMITED]int   = [throttle.Limited]int{}
	_ [C.VERDICT_PEEKED]int    = [throttle.Peeked]int{}
	_ [C.VERDICT_ALLOWED]int   = [throttle.Allowed]int{}
	_ [C.VERDICT_CHARGED]int   = [throttle.Charged]int{}
	_ [C.VERDICT_REFUNDED]int  = [throttle.Refunded]int{}
	_ [C.RESERVE]int           = [gcra.Reserve]int{}
	_ [C.PEEK]int              = [gcra.Peek]int{}
	_ [C.CHARGE]int            = [gcra.Charge]int{}
	_ [C.REFUND]int            = [gcra.Refund]int{}
)
