package local

import (
	"math"

	"funnel/gcra"
)

// ErrLeakingRate means that a leaking rate is NaN or out of range.
const ErrLeakingRate gcra.Error = "leaking rate must be above 0 and at most 1e9 tokens per second"

// NewRate returns the rate of a funnel that holds capacity tokens, at least 1,
// and leaks leakingRate tokens per second, above 0 and at most 1e9: 0.5 is one
// token every two seconds. For other rates, NaN and infinities included, the error is
// [ErrLeakingRate]; other errors are those of [gcra.NewRate]. [gcra.ErrTolerance]
// also means a rate so slow that a full funnel would take 292 years or more to drain.
//
// The emission interval is 1/leakingRate seconds, rounded down to the nanosecond.
// Most fractions have no exact floating point number, so a quotient that misses a
// whole nanosecond by no more than rounding errors (2^-51 of it) is taken for that
// nanosecond. For whole numbers both ways to write a rate are equal: a leaking rate
// of float64(count)/float64(seconds) is gcra.NewRate(capacity, count, seconds*1e9), up
// to a million seconds, 11 days.
func NewRate(capacity int64, leakingRate float64) (gcra.Rate, error) {
	// In this form NaN, which compares with nothing, is an error, too.
	if !(leakingRate > 0 && leakingRate <= 1e9) {
		return gcra.Rate{}, ErrLeakingRate
	}
	emissionInterval := math.Floor(1e9 / leakingRate * (1 + 0x1p-51))
	if emissionInterval >= 1<<63 {
		return gcra.Rate{}, gcra.ErrTolerance
	}
	return gcra.NewRate(capacity, 1, int64(emissionInterval))
}
