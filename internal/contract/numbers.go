package contract

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// The numbers of the contract have the form of the server's own numbers: no sign, no leading zeros.
var (
	decimal  = regexp.MustCompile(`\A(0|[1-9][0-9]*)(\.[0-9]{1,9})?\z`)
	zero     = big.NewInt(0)
	maxInt63 = big.NewInt(math.MaxInt64)
)

// Integer reads an integer, at least from, at most 2^63-1.
func Integer(from int64, text string) (number *big.Int, ok bool) {
	number, ok = new(big.Int).SetString(text, 10)
	return number, ok && number.String() == text && !less(number, big.NewInt(from)) && fits(number)
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

// seconds writes nanoseconds as the replies of most commands do. A negative number becomes -1.
func seconds(nanoseconds int64) string {
	if nanoseconds < 0 {
		return "-1"
	}
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// roundedUp divides a number by a unit, and rounds up.
func roundedUp(number *big.Int, unit int64) int64 {
	return in63Bits(quo(add(number, big.NewInt(unit-1)), big.NewInt(unit)))
}

func add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
func mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
func quo(a, b *big.Int) *big.Int { return new(big.Int).Quo(a, b) }

func maxOf(numbers ...*big.Int) *big.Int { return slices.MaxFunc(numbers, (*big.Int).Cmp) }
func minOf(numbers ...*big.Int) *big.Int { return slices.MinFunc(numbers, (*big.Int).Cmp) }

func less(a, b *big.Int) bool   { return a.Cmp(b) < 0 }
func fits(number *big.Int) bool { return !less(maxInt63, number) }

// in63Bits panics if a number does not fit: the contract promises that each of these numbers fits.
func in63Bits(number *big.Int) int64 {
	if !number.IsInt64() {
		panic("beyond 63 bits: " + number.String())
	}
	return number.Int64()
}
