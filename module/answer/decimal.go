package answer

import "math/bits"

// DecimalCapacity is the length of the longest Decimal, 9223372036.854775807; 2^63-1 has
// only 19 digits.
const DecimalCapacity = 20

// A Decimal is a number in decimal: the Bytes from Start up to End.
type Decimal struct {
	Start, End uint32
	Bytes      [DecimalCapacity]byte
}

// setInteger writes a number that is not negative, as four digits and twice eight.
//
//go:nosplit
func (decimal *Decimal) setInteger(number int64) {
	upper, lower := uint64(number)/1e8, uint64(number)%1e8
	top, middle := eightDigits(upper/1e8), eightDigits(upper%1e8)
	last := eightDigits(lower)
	decimal.End = DecimalCapacity
	switch {
	case top != 0: // its first four are 0
		decimal.Start = leadingZeros(top) - 4
	case middle != 0:
		decimal.Start = 4 + leadingZeros(middle)
	default:
		decimal.Start = 12 + min(leadingZeros(last), 7)
	}
	top >>= 32
	decimal.Bytes[0], decimal.Bytes[1] = '0'+byte(top), '0'+byte(top>>8)
	decimal.Bytes[2], decimal.Bytes[3] = '0'+byte(top>>16), '0'+byte(top>>24)
	put(decimal.Bytes[4:], middle)
	put(decimal.Bytes[12:], last)
}

// The place of the point in seconds that have a fraction.
const pointAt = DecimalCapacity - 1 - nanosecondDigits

// setSeconds writes nanoseconds as seconds, with up to nine fraction digits and without
// trailing zeros; a negative number, which is [gcra.Never], as -1.
//
//go:nosplit
func (decimal *Decimal) setSeconds(nanoseconds int64) {
	if nanoseconds <= 0 { // most waits are 0
		decimal.Start, decimal.End = 0, 1
		decimal.Bytes[0] = '0'
		if nanoseconds < 0 {
			decimal.End = 2
			decimal.Bytes[0], decimal.Bytes[1] = '-', '1'
		}
		return
	}
	seconds, fraction := uint64(nanoseconds)/1e9, uint64(nanoseconds)%1e9
	decimal.setWhole(seconds)
	decimal.End = pointAt
	if fraction == 0 {
		return
	}
	// The first digit of nine, then eight.
	first, digits := fraction/1e8, eightDigits(fraction%1e8)
	decimal.Bytes[pointAt], decimal.Bytes[pointAt+1] = '.', '0'+byte(first)
	put(decimal.Bytes[pointAt+2:], digits)
	decimal.End = DecimalCapacity - trailingZeros(digits)
}

// setWhole writes seconds, of at most ten digits, before the point.
//
//go:nosplit
func (decimal *Decimal) setWhole(seconds uint64) {
	if seconds < 1e8 {
		digits := eightDigits(seconds)
		decimal.Start = 2 + min(leadingZeros(digits), 7)
		put(decimal.Bytes[2:], digits)
		return
	}
	top := seconds / 1e8
	tens := top / 10
	decimal.Start = 0
	if tens == 0 {
		decimal.Start = 1
	}
	decimal.Bytes[0], decimal.Bytes[1] = '0'+byte(tens), '0'+byte(top-10*tens)
	put(decimal.Bytes[2:], eightDigits(seconds-1e8*top))
}

// eightDigits returns the digits of a number below 10^8, the first in the lowest byte. It
// finds all at once, in one register: it cuts the number into two of four digits, these
// into four of two, and these into eight. The factors divide by 100 and by 10: 5243/2^19
// and 103/2^10 exceed 1/100 and 1/10 by so little that results below 10^4 and 100 are
// exact.
//
//go:nosplit
func eightDigits(number uint64) uint64 {
	fours := number/10_000 | number%10_000<<32
	hundreds := fours * 5243 >> 19 & 0x0000007f_0000007f
	pairs := hundreds | (fours-100*hundreds)<<16
	tens := pairs * 103 >> 10 & 0x000f_000f_000f_000f
	return tens | (pairs-10*tens)<<8
}

// leadingZeros counts the leading zeros of eight digits; 8 for the number 0.
//
//go:nosplit
func leadingZeros(digits uint64) uint32 { return uint32(bits.TrailingZeros64(digits)) / 8 }

// trailingZeros counts the trailing zeros of eight digits; 8 for the number 0.
//
//go:nosplit
func trailingZeros(digits uint64) uint32 { return uint32(64-bits.Len64(digits)) / 8 }

// put writes eight digits as text.
//
//go:nosplit
func put(text []byte, digits uint64) {
	if len(text) < 8 {
		return
	}
	digits += 0x30303030_30303030
	text[0], text[1], text[2], text[3] = byte(digits), byte(digits>>8), byte(digits>>16), byte(digits>>24)
	text[4], text[5], text[6], text[7] = byte(digits>>32), byte(digits>>40), byte(digits>>48), byte(digits>>56)
}
