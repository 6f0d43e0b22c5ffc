package slots

// An Error says why slots or a call cannot be represented. This package returns only the constants
// below; compare with == or errors.Is.
type Error string

// Error returns the reason in words.
//
//go:nosplit
func (e Error) Error() string { return string(e) }

// Errors of [NewRequest] and, the last one, of [Slots].
const (
	ErrLimit Error = "limit must be at least 0"
	ErrTTL   Error = "ttl must be at least 1 millisecond"
	ErrEnd   Error = "ttl is too large: " +
		"the slot must end before the year 2262, 2^63-1 nanoseconds after the epoch"
)
