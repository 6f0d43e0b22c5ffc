package gcra

// Seconds rounds a span of nanoseconds up to whole seconds, so that a caller who
// waits that long has waited long enough. [NoRetry] and other negative spans
// come back as -1, "no time to wait" in the reply of CL.THROTTLE.
//
//go:nosplit
func Seconds(nanoseconds int64) int64 {
	if nanoseconds < 0 {
		return -1
	}
	return roundUp(nanoseconds, 1e9)
}

// Milliseconds rounds an instant or span of nanoseconds, at least 0, up to whole
// milliseconds: a key that expires then lives as long as its funnel holds water.
//
//go:nosplit
func Milliseconds(nanoseconds int64) int64 { return roundUp(nanoseconds, 1e6) }

// roundUp divides without the overflow that adding unit-1 first would risk.
//
//go:nosplit
func roundUp(nanoseconds, unit int64) int64 {
	quotient := nanoseconds / unit
	if nanoseconds%unit > 0 {
		quotient++
	}
	return quotient
}
