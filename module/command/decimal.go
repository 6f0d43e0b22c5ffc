package command

import (
	"math/bits"
	"unsafe"
)

// DecimalCapacity is three times eight digits, since putEight writes eight at a time. 2^63-1 has
// 19.
const DecimalCapacity = 24

// A Decimal is a number in decimal: the Bytes from Start up to End.
type Decimal struct {
	Start, End uint32
	Bytes      [DecimalCapacity]byte
}

// setInteger writes a number that is not negative.
//
//go:nosplit
func (decimal *Decimal) setInteger(number int64) {
	upper, lower := uint64(number)/1e8, uint64(number)%1e8
	decimal.setDigits(upper/1e8, upper%1e8, lower, DecimalCapacity-1)
	decimal.End = DecimalCapacity
}

// prepend writes text in front of a number. Up to five bytes fit, even in front of 19 digits.
//
//go:nosplit
func (decimal *Decimal) prepend(text string) {
	start := uint(decimal.Start) - uint(len(text))
	for i := 0; i < len(text); i++ {
		at := start + uint(i)
		if at < DecimalCapacity {
			decimal.Bytes[at] = text[i]
		}
	}
	decimal.Start = uint32(start)
}

// The place of the point in seconds: nine fraction digits follow it.
const pointAt = DecimalCapacity - 1 - nanosecondDigits

// setSeconds writes nanoseconds as seconds, with up to nine fraction digits and without trailing
// zeros; a negative number, which is [decision.Never], as -1.
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
	// The digit between them is 0, and the point takes its place.
	decimal.setDigits(seconds/1e6, seconds%1e6*100+fraction/1e8, fraction%1e8, pointAt-1)
	decimal.End = pointAt
	if fraction > 0 {
		decimal.Bytes[pointAt] = '.'
		last := uint(DecimalCapacity - 1)
		for last < DecimalCapacity && decimal.Bytes[last] == '0' {
			last--
		}
		decimal.End = uint32(last) + 1
	}
}

// setDigits writes three numbers below 10^8 with eight digits each. It sets Start to the first
// digit that is not 0, or to last if that digit is behind last.
//
//go:nosplit
func (decimal *Decimal) setDigits(top, middle, bottom uint64, last uint32) {
	start := uint32(0)
	if top > 0 {
		start = putEight((*[8]byte)(decimal.Bytes[0:8]), top)
	}
	zeros := putEight((*[8]byte)(decimal.Bytes[8:16]), middle)
	if top == 0 {
		start = 8 + zeros
	}
	zeros = putEight((*[8]byte)(decimal.Bytes[16:24]), bottom)
	if start == 16 {
		start += zeros
	}
	decimal.Start = min(start, last)
}

// putEight writes a number below 10^8 with eight digits, and returns how many zeros are in front.
// It finds all digits at once, in one register: it cuts the number into two of four digits, these
// into four of two, and these into eight. The factors divide by 100 and by 10: 5243/2^19 and
// 103/2^10 exceed 1/100 and 1/10 by so little that results below 10^4 and 100 are exact.
//
//go:nosplit
func putEight(text *[8]byte, number uint64) (zeros uint32) {
	fours := number/10_000 | number%10_000<<32
	hundreds := fours * 5243 >> 19 & 0x0000007f_0000007f
	pairs := hundreds | (fours-100*hundreds)<<16
	tens := pairs * 103 >> 10 & 0x000f_000f_000f_000f
	// The first digit is in the lowest byte, as in memory.
	digits := tens | (pairs-10*tens)<<8
	*(*uint64)(unsafe.Pointer(text)) = digits + 0x30303030_30303030 // as text, where '0' is 0x30
	return uint32(bits.TrailingZeros64(digits)) / 8                 // 8 if there is no other digit
}
