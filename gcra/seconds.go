package gcra

// Seconds rounds a span of nanoseconds up to whole seconds: a caller that waits that long has
// waited long enough. [decision.Never] and other negative spans return -1, which means "no time to
// wait" in the reply of CL.THROTTLE.
//
//go:nosplit
func Seconds(nanoseconds int64) int64 {
	if nanoseconds < 0 {
		return -1
	}
	return roundUp(nanoseconds/1e9, nanoseconds%1e9)
}

// Milliseconds rounds an instant or span of nanoseconds, at least 0, up to whole milliseconds: a
// key that expires then lives until its funnel is empty.
//
//go:nosplit
func Milliseconds(nanoseconds int64) int64 { return roundUp(nanoseconds/1e6, nanoseconds%1e6) }

// roundUp takes a quotient and its remainder: adding before the division could overflow, and
// dividing by an argument could panic.
//
//go:nosplit
func roundUp(quotient, remainder int64) int64 {
	if remainder > 0 {
		quotient++
	}
	return quotient
}
