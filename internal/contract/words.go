package contract

import (
	"math"
	"math/big"
	"regexp"
)

// The numbers of the contract are written as the server writes its own: no sign, no
// leading zeros.
var (
	integer = regexp.MustCompile(`\A(0|[1-9][0-9]*)\z`)
	decimal = regexp.MustCompile(`\A(0|[1-9][0-9]*)(\.[0-9]{1,9})?\z`)
	most    = big.NewInt(math.MaxInt64)
)

// Integer reads an integer from least to 2^63-1.
func Integer(least int64, text string) (number *big.Int, ok bool) {
	if !integer.MatchString(text) {
		return nil, false
	}
	number, ok = new(big.Int).SetString(text, 10)
	return number, ok && number.Cmp(big.NewInt(least)) >= 0 && fits(number)
}

// Seconds reads an integer or decimal, from 0 to 2^63-1 nanoseconds, as nanoseconds.
func Seconds(text string) (nanoseconds *big.Int, ok bool) {
	if !decimal.MatchString(text) {
		return nil, false
	}
	seconds, _ := new(big.Rat).SetString(text)
	exact := seconds.Mul(seconds, big.NewRat(1e9, 1))
	return exact.Num(), exact.IsInt() && fits(exact.Num())
}

// ParseFunnel reads key, capacity, count, period and quantity. No quantity is too large where
// only what fits of it is taken.
func ParseFunnel(mode Mode, words [5]string, whatFits bool) (Funnel, Error) {
	capacity, ok := Integer(1-int64(mode), words[1])
	if !ok {
		return Funnel{}, ErrCapacity
	}
	count, ok := Integer(1, words[2])
	if !ok {
		return Funnel{}, ErrCount
	}
	period, ok := Seconds(words[3])
	if !ok || period.Sign() == 0 {
		return Funnel{}, ErrPeriod
	}
	quantity, ok := Integer(0, words[4])
	if !ok {
		return Funnel{}, ErrQuantity
	}
	limit := capacity.Add(capacity, big.NewInt(int64(mode)))
	funnel, err := NewFunnel(words[0], limit, count, period, quantity)
	if err == ErrIncrement && whatFits {
		err = ""
	}
	return funnel, err
}

func fits(number *big.Int) bool { return number.Cmp(most) <= 0 }
