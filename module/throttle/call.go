package throttle

import "funnel/gcra"

// The lengths of what a [Call] holds.
const (
	ReplyLength     = 5
	DigitsCapacity  = 20 // 2^63-1 has 19 digits
	MessageCapacity = 512
)

// What a key can hold.
const (
	StoredNothing   uint32 = iota // there is no such key
	StoredString                  // a string, which is StoredValue
	StoredOtherType               // a list, a hash, ...
)

// The outcome of a call.
const (
	Error   uint32 = iota // Message holds the reply
	Parsed                // the arguments are fine
	Limited               // Reply is set, nothing is to be written
	Peeked                // quantity 0: likewise
	Allowed               // Reply, TAT and Expiry are set, and to be written
)

// A Call is one call of CL.THROTTLE, laid out in memory as struct throttle_call
// of call.h is. That file says which side fills which field, and when.
//
// The strings are views of the server's memory, valid until the call is answered.
// What Go writes holds no pointer, so there are no write barriers.
type Call struct {
	Capacity, Count, Period, Quantity string // as the client sent them
	LimitSurplus                      int64  // limit minus capacity: 1 in redis-cell mode, else 0

	Rate   gcra.Rate
	Tokens int64 // the quantity as a number

	Stored      uint32 // StoredNothing, StoredString or StoredOtherType
	StoredValue string
	Now         int64 // nanoseconds since the epoch

	Verdict uint32                // Error, Parsed, Limited, Peeked or Allowed
	Message [MessageCapacity]byte // an error reply, NUL-terminated

	Reply              [ReplyLength]int64
	ExpiryMilliseconds int64  // Unix time at which the funnel has drained
	TAT, Expiry        Digits // the words of the replicated SET
}

// Digits are a number in decimal: the last Length of Bytes.
type Digits struct {
	Length uint64
	Bytes  [DigitsCapacity]byte
}

// set writes a number that is not negative, two digits at a time, because divisions are
// slow.
//
//go:nosplit
func (digits *Digits) set(number int64) {
	rest := uint64(number)
	for at := DigitsCapacity - 2; at >= 0; at -= 2 {
		pair := rest % 100
		rest /= 100
		digits.Bytes[at] = pairs[2*pair]
		digits.Bytes[at+1] = pairs[2*pair+1]
		if rest == 0 {
			digits.Length = uint64(DigitsCapacity - at)
			if pair < 10 {
				digits.Length--
			}
			return
		}
	}
}

// pairs are the numbers from 00 to 99.
const pairs = "" +
	"0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"
