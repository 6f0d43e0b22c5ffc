package module

// #include "call.h"
import "C"

import (
	"unsafe"

	"funnel/module/throttle"
)

// C and Go each have their own words for what crosses the boundary. The compiler
// compares them here: an array of one length is no array of another.
var (
	c C.struct_throttle_call
	g throttle.Call

	_ [unsafe.Sizeof(c)]int                       = [unsafe.Sizeof(g)]int{}
	_ [unsafe.Offsetof(c.capacity)]int            = [unsafe.Offsetof(g.Capacity)]int{}
	_ [unsafe.Offsetof(c.count)]int               = [unsafe.Offsetof(g.Count)]int{}
	_ [unsafe.Offsetof(c.period)]int              = [unsafe.Offsetof(g.Period)]int{}
	_ [unsafe.Offsetof(c.quantity)]int            = [unsafe.Offsetof(g.Quantity)]int{}
	_ [unsafe.Offsetof(c.limit_surplus)]int       = [unsafe.Offsetof(g.LimitSurplus)]int{}
	_ [unsafe.Offsetof(c.rate)]int                = [unsafe.Offsetof(g.Rate)]int{}
	_ [unsafe.Offsetof(c.tokens)]int              = [unsafe.Offsetof(g.Tokens)]int{}
	_ [unsafe.Offsetof(c.stored)]int              = [unsafe.Offsetof(g.Stored)]int{}
	_ [unsafe.Offsetof(c.stored_value)]int        = [unsafe.Offsetof(g.StoredValue)]int{}
	_ [unsafe.Offsetof(c.now)]int                 = [unsafe.Offsetof(g.Now)]int{}
	_ [unsafe.Offsetof(c.verdict)]int             = [unsafe.Offsetof(g.Verdict)]int{}
	_ [unsafe.Offsetof(c.message)]int             = [unsafe.Offsetof(g.Message)]int{}
	_ [unsafe.Offsetof(c.reply)]int               = [unsafe.Offsetof(g.Reply)]int{}
	_ [unsafe.Offsetof(c.expiry_milliseconds)]int = [unsafe.Offsetof(g.ExpiryMilliseconds)]int{}
	_ [unsafe.Offsetof(c.tat)]int                 = [unsafe.Offsetof(g.TAT)]int{}
	_ [unsafe.Offsetof(c.expiry)]int              = [unsafe.Offsetof(g.Expiry)]int{}

	// A string in Go is where its bytes are, then how many.
	_ [unsafe.Sizeof(c.capacity)]int         = [unsafe.Sizeof(g.Capacity)]int{}
	_ [unsafe.Offsetof(c.capacity.bytes)]int = [0]int{}
	_ [unsafe.Sizeof(c.rate)]int             = [unsafe.Sizeof(g.Rate)]int{}
	_ [unsafe.Sizeof(c.stored)]int           = [unsafe.Sizeof(g.Stored)]int{}
	_ [unsafe.Sizeof(c.verdict)]int          = [unsafe.Sizeof(g.Verdict)]int{}
	_ [unsafe.Sizeof(c.tat)]int              = [unsafe.Sizeof(g.TAT)]int{}
	_ [unsafe.Offsetof(c.tat.length)]int     = [unsafe.Offsetof(g.TAT.Length)]int{}
	_ [unsafe.Offsetof(c.tat.bytes)]int      = [unsafe.Offsetof(g.TAT.Bytes)]int{}

	_ [C.REPLY_LENGTH]int      = [throttle.ReplyLength]int{}
	_ [C.DIGITS_CAPACITY]int   = [throttle.DigitsCapacity]int{}
	_ [C.MESSAGE_CAPACITY]int  = [throttle.MessageCapacity]int{}
	_ [C.STORED_NOTHING]int    = [throttle.StoredNothing]int{}
	_ [C.STORED_STRING]int     = [throttle.StoredString]int{}
	_ [C.STORED_OTHER_TYPE]int = [throttle.StoredOtherType]int{}
	_ [C.VERDICT_ERROR]int     = [throttle.Error]int{}
	_ [C.VERDICT_PARSED]int    = [throttle.Parsed]int{}
	_ [C.VERDICT_LIMITED]int   = [throttle.Limited]int{}
	_ [C.VERDICT_PEEKED]int    = [throttle.Peeked]int{}
	_ [C.VERDICT_ALLOWED]int   = [throttle.Allowed]int{}
)
