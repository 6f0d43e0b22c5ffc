package throttle

// DecimalCapacity is the length of the longest Decimal: 9223372036.854775807, with a
// point, and 2^63-1 has 19 digits.
const DecimalCapacity = 20

// A Decimal is a number in decimal: the Bytes from Start up to End.
type Decimal struct {
	Start, End uint32
	Bytes      [DecimalCapacity]byte
}

// setInteger writes a number that is not negative.
//
//go:nosplit
func (decimal *Decimal) setInteger(number int64) {
	decimal.End = DecimalCapacity
	decimal.writeBefore(DecimalCapacity, uint64(number))
}

// The place of the point in seconds that have a fraction.
const pointAt = DecimalCapacity - 1 - nanosecondDigits

// setSeconds writes nanoseconds as seconds, with up to nine fraction digits and without
// trailing zeros; a negative number, which is [gcra.Never], as -1.
//
//go:nosplit
func (decimal *Decimal) setSeconds(nanoseconds int64) {
	if nanoseconds < 0 {
		decimal.Start, decimal.End = 0, 2
		decimal.Bytes[0], decimal.Bytes[1] = '-', '1'
		return
	}
	seconds, fraction := uint64(nanoseconds)/nanosecondsPerSecond, uint64(nanoseconds)%nanosecondsPerSecond
	decimal.End = pointAt
	decimal.writeBefore(pointAt, seconds)
	if fraction == 0 {
		return
	}
	decimal.Bytes[pointAt] = '.'
	// The digit that pairs leave over, of nine, then pairs from the left.
	decimal.Bytes[pointAt+1] = byte('0' + fraction/100_000_000)
	pair := fraction / 1_000_000 % 100
	decimal.Bytes[pointAt+2], decimal.Bytes[pointAt+3] = pairs[2*pair], pairs[2*pair+1]
	pair = fraction / 10_000 % 100
	decimal.Bytes[pointAt+4], decimal.Bytes[pointAt+5] = pairs[2*pair], pairs[2*pair+1]
	pair = fraction / 100 % 100
	decimal.Bytes[pointAt+6], decimal.Bytes[pointAt+7] = pairs[2*pair], pairs[2*pair+1]
	pair = fraction % 100
	decimal.Bytes[pointAt+8], decimal.Bytes[pointAt+9] = pairs[2*pair], pairs[2*pair+1]
	end := uint32(DecimalCapacity)
	for end > 0 && end <= DecimalCapacity && decimal.Bytes[end-1] == '0' {
		end--
	}
	decimal.End = end
}

// writeBefore writes the digits of a number such that they end before the place end, at
// most DecimalCapacity, and sets Start. Two digits at a time, because divisions are slow.
//
//go:nosplit
func (decimal *Decimal) writeBefore(end int, number uint64) {
	for at := end - 2; at >= 0 && at < DecimalCapacity-1; at -= 2 {
		pair := number % 100
		number /= 100
		decimal.Bytes[at], decimal.Bytes[at+1] = pairs[2*pair], pairs[2*pair+1]
		if number == 0 {
			decimal.Start = uint32(at)
			if pair < 10 {
				decimal.Start++
			}
			return
		}
	}
}

// pairs are the numbers from 00 to 99.
const pairs = "" +
	"0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"
