package throttle

import "funnel/gcra"

// The lengths of what crosses the boundary.
const (
	ReplyLength     = 5
	MessageCapacity = 512
	MostFunnels     = 64
)

// What a key can hold.
const (
	StoredNothing   uint32 = iota // there is no such key
	StoredString                  // a string, which is StoredValue
	StoredOtherType               // a list, a hash, ...
)

// What is to become of a key.
const (
	WriteNothing  uint32 = iota
	WriteTAT             // TAT and Expiry are to be written
	WriteDeletion        // the funnel is empty: the key is to be deleted
)

// The outcome of a call.
const (
	Error   uint32 = iota // Message holds the reply
	Parsed                // the arguments are fine
	Limited               // this and all that follow: the reply is set
	Peeked                // by CL.PEEK, or with quantity 0
	Allowed
	Charged
	Refunded
)

// The structures here are laid out in memory as those of call.h are. That file says
// which side fills which field, and when.
//
// The strings are views of the server's memory, valid until the call is answered.
// What Go writes holds no pointer, so there are no write barriers.

// A Funnel is one funnel of a call: its words, what its key holds, and what becomes of
// it.
type Funnel struct {
	Key, Capacity, Count, Period, Quantity string // as the client sent them

	Stored      uint32 // StoredNothing, StoredString or StoredOtherType
	Write       uint32 // WriteNothing, WriteTAT or WriteDeletion
	StoredValue string

	ExpiryMilliseconds int64   // Unix time at which the funnel has drained
	TAT, Expiry        Decimal // the words of the replicated SET
}

// An Outcome says what became of a call.
type Outcome struct {
	Verdict uint32                // Error, Parsed, ...
	Funnel  uint32                // the one that an error names, counted from 1, or 0
	Message [MessageCapacity]byte // an error reply, zero terminated
}

// A Call is one call of CL.THROTTLE: struct throttle_call.
type Call struct {
	LimitSurplus int64 // limit minus capacity: 1 in redis-cell mode, else 0
	Now          int64 // nanoseconds since the epoch
	Funnel       Funnel
	Ask          gcra.Ask
	Outcome      Outcome
	Reply        [ReplyLength]int64
}

// A FunnelsCall is one call of CL.RESERVE, CL.PEEK, CL.CHARGE or CL.REFUND: struct
// funnels_call.
type FunnelsCall struct {
	Command      gcra.Operation
	Length       uint32 // how many funnels there are
	LimitSurplus int64
	Now          int64
	MaxWait      string // as the client sent it; without bytes when it was left out
	LongestWait  int64  // the same in nanoseconds

	Outcome Outcome
	Writes  int64 // how many of the keys are to be written
	Limited int64
	Wait    Decimal

	Asks    [MostFunnels]gcra.Ask
	Funnels [MostFunnels]Funnel
	Rows    [MostFunnels]Row
}

// A Row is what the reply says of one funnel.
type Row struct {
	Limited, Limit, Remaining int64
	Wait, ResetAfter          Decimal
}
