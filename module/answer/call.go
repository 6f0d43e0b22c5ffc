package answer

import (
	decided "funnel/internal/call"
	"funnel/slots"
)

// The lengths of arrays that cross the boundary.
const (
	SecondsLength   = 5
	MessageCapacity = 512
	MostFunnels     = 64
)

// The forms of a reply.
const (
	InSeconds uint32 = iota // five integers, of one funnel, in whole seconds: CL.THROTTLE
	InRows                  // a row for each funnel, in exact times
)

// The kinds of a row.
const (
	FunnelKind uint32 = iota
	SlotsKind
)

// The types of stored values.
const (
	StoredNothing   uint32 = iota // there is no such key
	StoredOfKind                  // of a funnel, the string StoredValue; of slots, a sorted set
	StoredOtherType               // a list, a hash, ...
)

// The write that a call makes to a key.
const (
	WriteNothing  uint32 = iota
	WriteTAT             // write TAT and Expiry; of slots, Expiry: when the holder's slot ends
	WriteDeletion        // the funnel is empty: delete the key; of slots, the holder's slot has ended
)

// The verdict on a call.
const (
	Error   uint32 = iota // Message holds the reply
	Parsed                // the arguments are fine
	Limited               // from here on: the reply is set
	Peeked                // by CL.PEEK, or with quantity 0
	Allowed
	Charged
	Refunded
)

// The structures here have the memory layout of those in call.h. That file says which
// side fills which field, and when.
//
// The strings are views of the server's memory, valid until the call is answered.
// Go writes no pointers, so there are no write barriers.

// A Call is one call of a command: struct call.
type Call struct {
	Operation    decided.Operation
	Form         uint32 // InSeconds, for one funnel, or InRows
	Length       uint32 // how many funnels there are
	LimitSurplus int64  // limit minus capacity: 1 for CL.THROTTLE in redis-cell mode, else 0
	Now          int64  // nanoseconds since the epoch
	LastWord     string // max_wait or tat; its data pointer is nil if it was left out

	MaxWait, Receipt int64 // LastWord as a number: one of them

	Verdict       uint32                // Error, Parsed, ...
	ErrorFunnel   uint32                // the funnel that an error names, counted from 1, or 0
	Message       [MessageCapacity]byte // an error reply, NUL-terminated
	MessageLength uint64
	Writes        int64 // how many keys to write

	Seconds [SecondsLength]int64 // the reply InSeconds
	Limited int64                // with Wait, Rows and, of CL.TAKE, Taken, the reply InRows
	Taken   int64
	Wait    Decimal

	Items   [MostFunnels]decided.Row
	Funnels [MostFunnels]Funnel
	Rows    [MostFunnels]Row
}

// A Funnel is one row of a call, a funnel or slots: its words, the stored value, and the write.
type Funnel struct {
	// As the client sent them. Of slots: key, limit, the word SLOTS, ttl and holder.
	Key, Capacity, Count, Period, Quantity string

	// For namesAKeyTwice: which key this one was last compared with, counted from 1, and
	// how many bytes at their ends are alike.
	ComparedWith, Alike uint64

	Kind        uint32 // FunnelKind or SlotsKind
	Stored      uint32 // StoredNothing, StoredOfKind or StoredOtherType
	Write       uint32 // WriteNothing, WriteTAT or WriteDeletion
	StoredValue string
	Slots       Slots

	ExpiryMilliseconds int64   // Unix time at which the funnel is empty, or the holder's slot ends
	TAT, Expiry        Decimal // the words of the replicated SET; of slots, held and that of ZADD
}

// Slots are struct slots: what C reads and writes of a sorted set.
type Slots struct {
	Limit int64
	slots.State

	_ [4]int64 // used by C only
}

// A Row is the reply of one funnel.
type Row struct {
	Limited, Limit, Remaining int64
	Wait, ResetAfter          Decimal
	HasReceipt                int64 // 1: it is the funnel's TAT, or held; 0: it is "0"
}
