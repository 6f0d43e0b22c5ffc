package gcra

// An Error says why a rate or a call cannot be represented. This package returns only the constants
// below; compare with == or errors.Is.
type Error string

// Error returns the reason in words.
//
//go:nosplit
func (e Error) Error() string { return string(e) }

// Errors of [NewRate], [Rate.Request] and the operations of a [Funnel].
const (
	ErrCapacity Error = "capacity must be at least 1"
	ErrCount    Error = "count must be at least 1"
	ErrPeriod   Error = "period must be at least 1 nanosecond"
	ErrQuantity Error = "quantity must be at least 0"

	ErrEmissionInterval Error = "count is too large for period: less than 1 nanosecond per token"
	ErrTolerance        Error = "capacity and period are too large together for count: " +
		"a full funnel must drain within 2^63-1 nanoseconds (292 years)"
	ErrIncrement Error = "quantity and period are too large together for count: " +
		"the tokens must leak within 2^63-1 nanoseconds (292 years)"
	ErrTAT Error = "quantity and period are too large together for count: " +
		"the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch"
)
