package quota

// An Error says why a quota or a call cannot be represented. This package returns only the
// constants below; compare with == or errors.Is.
type Error string

// Error returns the reason in words.
//
//go:nosplit
func (e Error) Error() string { return string(e) }

// Errors of [NewRequest] and [NewWindowRequest], and, the last three, of [Quota].
const (
	ErrLimit    Error = "limit must be at least 0"
	ErrUntil    Error = "until must be at least 1 nanosecond after the epoch"
	ErrLasts    Error = "a window must last at least 1 millisecond"
	ErrQuantity Error = "quantity must be at least 0"

	ErrEnded Error = "until must be later than the clock: the period has ended"
	ErrEnd   Error = "until is too large: " +
		"the period must end before the year 2262, 2^63-1 nanoseconds after the epoch"
	ErrUsed Error = "quantity is too large: the sum that is used must be at most 9223372036854775807"
)
