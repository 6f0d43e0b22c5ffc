// Package errortext has the texts of the errors that the commands reply: package module/command
// replies them, and package contract expects them. limiter/internal/redis/funnels.lua repeats them,
// and a test compares. The errors of packages gcra, slots and quota, which name the numbers that
// are too large together, are in these packages.
//
// Everything is a constant, because the module runs without the Go runtime.
package errortext

// Codes are the first words of an error reply, by which clients tell errors apart, with the space
// behind them.
const (
	Invalid  = "INVALID "  // the call is wrong: any server would refuse it
	Past     = "ENDED "    // the period of a quota has ended: ask again
	TryAgain = "TRYAGAIN " // nothing is decided: ask again, as of a key that moves in a cluster
)

// Texts of errors with the code Invalid. Some are followed by the wrong word.
const (
	Capacity     = "capacity must be an integer from 1 to 9223372036854775807"
	ZeroCapacity = "capacity must be an integer from 1 to 9223372036854775807, not '0': " +
		"for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'"
	CapacityRedisCell = "capacity must be an integer from 0 to 9223372036854775807"
	Count             = "count must be an integer from 1 to 9223372036854775807"
	Period            = "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	Quantity          = "quantity must be an integer from 0 to 9223372036854775807"

	Limit  = "limit must be an integer from 0 to 9223372036854775807"
	TTL    = "ttl must be seconds from 0.001 to 9223372036.854775807 with up to 9 fraction digits"
	Holder = "holder must be 1 to 255 bytes"

	Until = "until must be a Unix time in seconds above 0, or + and seconds from 0.001, " +
		"at most 9223372036.854775807 and with up to 9 fraction digits"
	UntilOfRefund = "until must be the Unix time that a reply named: it says which period counted the quantity"

	MaxWait            = "max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits"
	MaxWaitWithSlots   = "max_wait must be left out with SLOTS: ask again after a moment"
	MaxWaitWithUntil   = "max_wait must be left out with UNTIL: ask again after the wait that a limited call replies"
	MaxWaitWithSeveral = "max_wait must be 0 for several funnels: ask again after the wait that a limited call replies"

	Receipt            = "tat must be an integer from 0 to 9223372036854775807"
	ReceiptWithSlots   = "tat must be left out with SLOTS: the holder's name says which slot ends"
	ReceiptWithUntil   = "tat must be left out with UNTIL: until says which period counted the quantity"
	ReceiptWithSeveral = "tat must be left out for several funnels: give the tokens of each back by a call of its own"

	DuplicateKey = "the key is named twice in this call: ask once, for all of its tokens"

	// They omit the stored value, which may be sensitive.
	NoFunnel = "the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
	NoQuota  = "the key does not hold a quota: " +
		"its value is not used:N with an integer N from 1 to 9223372036854775807"
)

// Ended is the text with the code Past. The rest of the reply shows until and the instant of the
// call.
const Ended = "until must be later than the server's clock"

// InUse is the text with the code TryAgain.
const InUse = "the server has the key in use, as for a save without a fork: ask again in a moment"

// WrongType is the whole error for a key of another type, as the server's own commands word it.
const WrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
