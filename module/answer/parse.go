package answer

import "math"

// parseInteger reads a decimal integer from 0 to 2^63-1, in the form of the server's
// own integers: digits only, no sign, no leading zeros.
//
//go:nosplit
func parseInteger(text string) (value int64, ok bool) {
	const mostDigits = 19 // the sum then fits 64 bits
	if text == "" || len(text) > mostDigits || (text[0] == '0' && len(text) > 1) {
		return 0, false
	}
	var sum uint64
	for i := 0; i < len(text); i++ {
		digit := uint64(text[i]) - '0'
		if digit > 9 {
			return 0, false
		}
		sum = sum*10 + digit
	}
	return int64(sum), sum <= math.MaxInt64
}

// isTokens reads the word TOKENS, in any case.
//
//go:nosplit
func isTokens(text string) bool {
	const word = "tokens"
	if len(text) != len(word) {
		return false
	}
	for i := 0; i < len(text) && i < len(word); i++ {
		if text[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}

// parseTAT is parseInteger for texts that probably have the 19 digits of a TAT. It reads
// these at a third of the cost: eight, eight, and three.
//
//go:nosplit
func parseTAT(text string) (tat int64, ok bool) {
	if len(text) != 19 || text[0] == '0' {
		return parseInteger(text)
	}
	first, okFirst := parseEight(text)
	middle, okMiddle := parseEight(text[8:])
	a, b, c := text[16]-'0', text[17]-'0', text[18]-'0'
	sum := first*1e11 + middle*1000 + uint64(a)*100 + uint64(b)*10 + uint64(c) // 64 bits hold it
	return int64(sum), okFirst && okMiddle && max(a, b, c) <= 9 && sum <= math.MaxInt64
}

// parseEight reads the first eight bytes of a text, as digits, in one register.
// Neighbours are joined to numbers of two digits, then of four, then of eight, as in
// https://lemire.me/blog/2022/01/21/swar-explained-parsing-eight-digits/.
//
//go:nosplit
func parseEight(text string) (value uint64, ok bool) {
	const (
		each  = 0x0101010101010101 // a 1 in each byte
		lower = 0x000000ff000000ff // the first of the four numbers of a half
	)
	bytes := eightBytes(text)
	// A digit has 3 in its upper half, and keeps it when 6 is added.
	if bytes&(0xf0*each) != 0x30*each || (bytes+0x06*each)&(0xf0*each) != 0x30*each {
		return 0, false
	}
	digits := bytes - '0'*each
	pairs := digits*10 + digits>>8 // in every second byte
	value = (pairs&lower*(1_000_000<<32|100) + pairs>>16&lower*(10_000<<32|1)) >> 32
	return value, true
}

// eightBytes returns the first eight bytes of a text, the first in the lowest byte; 0 for
// a shorter text.
//
//go:nosplit
func eightBytes(text string) uint64 {
	if len(text) < 8 {
		return 0
	}
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// Seconds have at most nine fraction digits, down to the nanosecond.
const (
	nanosecondDigits     = 9
	nanosecondsPerSecond = 1_000_000_000
	mostSeconds          = math.MaxInt64 / nanosecondsPerSecond // 292 years
	mostSecondsDigits    = 10
)

// parseSeconds reads seconds, an integer or a decimal with 1 to 9 fraction
// digits, and returns exact nanoseconds, from 0 to 2^63-1.
//
//go:nosplit
func parseSeconds(text string) (nanoseconds int64, ok bool) {
	whole := text
	if len(text) > mostSecondsDigits {
		whole = text[:mostSecondsDigits]
	}
	var seconds uint64
	digits := uint(0)
	for digits < uint(len(whole)) {
		digit := uint64(whole[digits]) - '0'
		if digit > 9 {
			break
		}
		seconds = seconds*10 + digit
		digits++
	}
	if digits == 0 || digits > 1 && len(text) > 1 && text[0] == '0' || seconds > mostSeconds {
		return 0, false
	}
	if digits < uint(len(text)) {
		rest := text[digits:]
		if len(rest) == 0 || rest[0] != '.' {
			return 0, false
		}
		if nanoseconds, ok = parseFraction(rest[1:]); !ok {
			return 0, false
		}
	}
	sum := seconds*nanosecondsPerSecond + uint64(nanoseconds) // below 2^63 + 1e9, which 64 bits hold
	return int64(sum), sum <= math.MaxInt64
}

// parseFraction reads the 1 to 9 digits behind the point as nanoseconds.
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
