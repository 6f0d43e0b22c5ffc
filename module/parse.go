package module

import "math"

// parseInteger reads a decimal integer from 0 to 2^63-1, written as the server
// itself writes and accepts integers: digits only, no sign, no leading zeros.
func parseInteger(text string) (value int64, ok bool) {
	const mostDigits = 19 // so that 64 bits hold the sum before it is judged
	if text == "" || len(text) > mostDigits || (text[0] == '0' && len(text) > 1) {
		return 0, false
	}
	var sum uint64
	for i := 0; i < len(text); i++ {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		sum = sum*10 + uint64(digit)
	}
	return int64(sum), sum <= math.MaxInt64
}

// Seconds are read down to the nanosecond: nine fraction digits, no more.
const (
	nanosecondDigits           = 9
	nanosecondsPerSecond int64 = 1e9
	mostSeconds                = math.MaxInt64 / nanosecondsPerSecond // 292 years
)

// parseSeconds reads seconds, an integer or a decimal with 1 to 9 fraction
// digits, and returns exact nanoseconds, from 0 to 2^63-1.
func parseSeconds(text string) (nanoseconds int64, ok bool) {
	whole, fraction := text, ""
	if point := indexOfPoint(text); point >= 0 {
		whole, fraction = text[:point], text[point+1:]
		if fraction == "" {
			return 0, false
		}
	}
	seconds, ok := parseInteger(whole)
	if !ok || seconds > mostSeconds {
		return 0, false
	}
	part, ok := parseFraction(fraction)
	// At most 2^63 + 1e9, which 64 bits hold.
	sum := uint64(seconds*nanosecondsPerSecond) + uint64(part)
	return int64(sum), ok && sum <= math.MaxInt64
}

// indexOfPoint returns -1 when there is no point where one can be: behind a
// number of seconds that fits, however long the text is.
func indexOfPoint(text string) int {
	const mostDigits = 10 // of mostSeconds
	for i := 0; i < len(text) && i <= mostDigits; i++ {
		if text[i] == '.' {
			return i
		}
	}
	return -1
}

// parseFraction reads up to 9 digits behind the point as nanoseconds.
func parseFraction(digits string) (nanoseconds int64, ok bool) {
	if len(digits) > nanosecondDigits {
		return 0, false
	}
	for i := 0; i < nanosecondDigits; i++ {
		nanoseconds *= 10
		if i < len(digits) {
			digit := digits[i] - '0'
			if digit > 9 {
				return 0, false
			}
			nanoseconds += int64(digit)
		}
	}
	return nanoseconds, true
}
