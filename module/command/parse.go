package command

import "math"

// maxDigits is how many digits an integer may have. Any number of 19 digits fits 64 bits.
const maxDigits = 19

// parseInteger reads a decimal integer from 0 to 2^63-1, in the form of the server's own integers:
// digits only, no sign, no leading zeros.
//
//go:nosplit
func parseInteger(text string) (value int64, ok bool) {
	if text == "" || len(text) > maxDigits || (text[0] == '0' && len(text) > 1) {
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

// Seconds have at most nine fraction digits, down to the nanosecond.
const (
	nanosecondDigits     = 9
	nanosecondsPerSecond = 1_000_000_000
	maxSeconds           = math.MaxInt64 / nanosecondsPerSecond // 292 years
	maxSecondsDigits     = 10
)

// parseSeconds reads seconds, an integer or a decimal with 1 to 9 fraction digits, and returns
// exact nanoseconds, from 0 to 2^63-1.
//
//go:nosplit
func parseSeconds(text string) (nanoseconds int64, ok bool) {
	var seconds uint64
	length := uint(0) // of the integer part, up to one digit too many
	digits := text[:min(len(text), maxSecondsDigits+1)]
	for length < uint(len(digits)) {
		digit := digits[length] - '0'
		if digit > 9 {
			break
		}
		seconds = seconds*10 + uint64(digit)
		length++
	}
	hasLeadingZero := len(text) > 1 && text[0] == '0' && text[1] != '.'
	if length == 0 || hasLeadingZero || seconds > maxSeconds {
		return 0, false
	}
	if length < uint(len(text)) {
		if text[length] != '.' {
			return 0, false
		}
		nanoseconds, ok = parseFraction(text[length+1:])
		if !ok {
			return 0, false
		}
	}
	sum := seconds*nanosecondsPerSecond + uint64(nanoseconds) // below 2^63 + 1e9, which 64 bits hold
	return int64(sum), sum <= math.MaxInt64
}

// parseFraction reads the 1 to 9 digits after the point as nanoseconds.
//
//go:nosplit
func parseFraction(digits string) (nanoseconds int64, ok bool) {
	if digits == "" || len(digits) > nanosecondDigits {
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
