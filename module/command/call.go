package command

import (
	"funnel/internal/call"
	"funnel/slots"
)

// The lengths of arrays that cross the boundary.
const (
	SecondsLength   = 5
	MessageCapacity = 512
	WordsPerRow     = 5
	MaxRows         = call.MaxRows
)

// The forms of a reply.
const (
	InSeconds uint32 = iota // five integers, of one funnel, in whole seconds: CL.THROTTLE
	InRows                  // a reply for each row, with exact times
)

// The types of stored values.
const (
	StoredNothing   uint32 = iota // there is no such key
	StoredOfKind                  // the type in which the row's kind keeps its state
	StoredOtherType               // a list, a hash, ...
	StoredInUse                   // unknown: the server does not open the key for writing
)

// The write that a row makes to its key.
const (
	WriteNothing uint32 = iota
	WriteState          // the state is in the part of the row that has the kind's name
	WriteRemoval        // the row has no state any more
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

// The structures here have the memory layout of the structures in call.h. That file says which side
// fills which field, and when.
//
// The strings are views of the server's memory, valid until the call is answered. Go writes no
// pointers, so there are no write barriers.

// A Call is one call of a command: struct call.
type Call struct {
	Operation    call.Operation
	Form         uint32 // InSeconds, for one funnel, or InRows
	Length       uint32 // how many rows there are
	LimitSurplus int64  // limit minus capacity: 1 for CL.THROTTLE in redis-cell mode, else 0
	Now          int64  // nanoseconds since the epoch
	LastWord     string // max_wait or tat; its data pointer is nil if it was left out

	MaxWait, Receipt int64 // LastWord as a number, in one of the two

	Verdict       uint32                // Error, Parsed, ...
	ErrorRow      uint32                // the row that an error names, counted from 1, or 0
	Message       [MessageCapacity]byte // an error reply, NUL-terminated
	MessageLength uint64
	Writes        int64  // how many keys to write
	ComparedBytes uint64 // how many bytes of keys were compared: a test bounds them

	// The reply InSeconds.
	Seconds [SecondsLength]int64

	// The reply InRows. Taken is for CL.TAKE.
	Limited int64
	Taken   int64
	Wait    Decimal
	Replies [MaxRows]RowReply

	Rows    [MaxRows]Row
	Decided [MaxRows]call.Row // the rows for package call: Parse sets the requests, Decide the states
}

// A Row is one row of a call: its words, the stored value, and the write.
type Row struct {
	Words [WordsPerRow]string // as the client sent them

	// For hasDuplicateKeys: the number of the key that this key was last compared with, counted
	// from 1, and how many bytes at their ends are the same.
	ComparedWith, Alike uint64

	Kind   call.Kind
	Stored uint32 // StoredNothing, StoredOfKind, ...
	Write  uint32 // WriteNothing, WriteState or WriteRemoval

	String StringKey // if Kind is Funnel or Quota
	Funnel Funnel    // if Kind is Funnel
	Slots  Slots     // if Kind is Slots
	Quota  Quota     // if Kind is Quota
}

// A StringKey is struct string_key: the string that keeps a funnel or a quota.
type StringKey struct {
	Stored       string // the value of the key
	StoredExpiry int64  // for a quota: Unix time in milliseconds at which the key expires, or below 1

	Value              Decimal // the new value
	ExpiryMilliseconds int64   // Unix time at which the key expires after the call
	Expiry             Decimal // the same time in decimal
}

// A Funnel is struct funnel. The value of its key is the TAT.
type Funnel struct {
	HasReceipt int64 // 1: the reply shows the new value as the receipt; 0: it shows "0"
}

// A Quota is struct quota. The value of its key is the sum that is used.
type Quota struct {
	Until Decimal // the end of the period that counted the call, in seconds, or "0" if none did
}

// Slots are struct slots: the sorted set that keeps slots.
type Slots struct {
	Limit int64
	slots.State

	EndMilliseconds int64   // Unix time at which the holder's slot ends
	End             Decimal // the same time in decimal
	Held            Decimal // how much longer the holder's slot would have run, in seconds

	_ [4]int64 // used by C only
}

// A RowReply is the reply of one row without its last element, which depends on the kind.
type RowReply struct {
	Limited, Limit, Remaining int64
	Wait, ResetAfter          Decimal
}
