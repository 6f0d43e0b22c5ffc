package contract

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// A Quota is a row that limits a sum per period: its key, its limit and the quantity that is asked
// for. The period ends at Until. If Until is nil, it is the period that runs. If none runs, it
// begins now.
type Quota struct {
	Key             string
	Limit, Quantity *big.Int
	Until           *big.Int // Unix nanoseconds
	Lasts           *big.Int // how long a period lasts that begins now, in nanoseconds; nil if there is an Until

	until         string // as in the call
	before, after Period
}

// A Period is the state of a quota: the sum that is used, and when its key expires, in Unix
// milliseconds, 0 for never. A missing key has the zero Period.
type Period struct{ Used, Expiry int64 }

// parseQuota reads key, limit, UNTIL, until and quantity.
func parseQuota(operation string, words [5]string) (Row, Error) {
	limit, isLimit := Integer(0, words[1])
	quantity, isQuantity := Integer(0, words[4])
	q := &Quota{Key: words[0], Limit: limit, Quantity: quantity, until: words[3]}
	least := big.NewInt(1)
	after, isWindow := strings.CutPrefix(words[3], "+")
	number, isUntil := Seconds(after)
	if isWindow {
		q.Lasts, least = number, big.NewInt(1e6)
	} else {
		q.Until = number
	}
	switch {
	case !isLimit:
		return nil, ErrLimit
	case isWindow && operation == "refund":
		return nil, ErrUntilOfRefund
	case !isUntil || less(number, least):
		return nil, ErrUntil
	case !isQuantity:
		return nil, ErrQuantity
	}
	return q, ""
}

// ended is the error of a call for a period that has ended. A refund for such a period is no error.
func (q *Quota) ended(operation string, now *big.Int) Error {
	if !q.hasEnded(now) || operation == "refund" {
		return ""
	}
	return Error(fmt.Sprintf("%s: got %s, and it is %s", ErrEnded, q.until, seconds(now.Int64())))
}

// hasEnded reports whether the period that the call names has ended. A call that says how long a
// period lasts names none.
func (q *Quota) hasEnded(now *big.Int) bool { return q.Until != nil && !less(now, q.Until) }

// end is when the period ends in which a call is counted. A period that begins now ends at a whole
// millisecond.
func (q *Quota) end(now *big.Int) (*big.Int, Error) {
	expiry, runs := inNanoseconds(q.before.Expiry), q.before.Expiry != NoExpiry
	switch {
	case q.Lasts == nil && runs && (q.hasEnded(now) || less(expiry, q.Until)):
		return expiry, ""
	case q.Lasts == nil:
		return q.Until, ""
	case runs:
		return minOf(expiry, maxInt63), ""
	}
	nanoseconds := add(add(now, q.Lasts), big.NewInt(999_999))
	end := sub(nanoseconds, new(big.Int).Mod(nanoseconds, big.NewInt(1e6)))
	if !fits(end) {
		return nil, ErrPeriodEnd
	}
	return end, ""
}

func (q *Quota) key() string { return q.Key }

func (q *Quota) asks() bool { return q.Quantity.Sign() > 0 }

// read takes the period that runs. A string whose key has expired counts as no key.
func (q *Quota) read(value Value, now *big.Int) Error {
	used, isQuota := strings.CutPrefix(value.Text, "used:")
	sum, isSum := Integer(1, used)
	switch {
	case value.Type == "":
	case value.Type != "string":
		return ErrType
	case value.Expiry != NoExpiry && !less(now, inNanoseconds(value.Expiry)):
	case !isQuota || !isSum:
		return ErrQuota
	default:
		q.before = Period{Used: sum.Int64(), Expiry: value.Expiry}
	}
	return ""
}

// takeBack decides as if the row asked for nothing: it still cuts the period.
func (q *Quota) takeBack(now *big.Int) Answer {
	nothing := *q
	nothing.Quantity = zero
	answer, _ := nothing.decide("reserve", now, zero, zero)
	q.after = nothing.after
	return answer
}

func (q *Quota) decide(operation string, now, _, _ *big.Int) (a Answer, err Error) {
	before, after := q.before, Period{}
	used, ended := big.NewInt(before.Used), q.hasEnded(now)
	end, err := q.end(now)
	if err != "" {
		return Answer{}, err
	}
	sum, needed := add(used, q.Quantity), q.Quantity
	a.Limited = q.asks() && less(q.Limit, sum)
	switch {
	case operation == "take":
		sum, needed = minOf(sum, maxOf(used, q.Limit)), big.NewInt(1)
		a.Limited = less(sum, add(used, q.Quantity))
	case operation == "charge":
		needed = zero // a sum above the limit is limited until the end
	case operation == "refund":
		sum, a.Limited = maxOf(sub(used, q.Quantity), zero), false
	case operation == "peek" || a.Limited:
		sum = used
	}
	if operation == "refund" && ended {
		sum = used
	}
	if !fits(sum) {
		return Answer{}, ErrUsed
	}

	left := minOf(maxOf(sub(end, now), zero), maxInt63)
	switch {
	case a.Limited && less(q.Limit, needed):
		a.Wait = -1
	case a.Limited:
		a.Wait = left.Int64()
	}
	if sum.Sign() > 0 {
		a.ResetAfter = left.Int64()
		after = Period{Used: sum.Int64(), Expiry: roundedUp(end, 1e6)}
	}
	// Neither a peek nor a refund cuts the period, nor does a call that names no end.
	runs := before.Expiry != NoExpiry
	keeps := operation == "peek" || q.Lasts != nil && runs || operation == "refund" && (runs || after.Used == before.Used)
	if keeps && sum.Sign() > 0 {
		after.Expiry = before.Expiry
	}
	a.Limit, a.Remaining = in63Bits(q.Limit), in63Bits(maxOf(sub(q.Limit, sum), zero))
	q.after = after
	return a, ""
}

// taken is the quantity by which the sum has grown.
func (q *Quota) taken() int64 { return q.after.Used - q.before.Used }

// write stores the sum until the period ends. A sum of 0 has no key.
func (q *Quota) write(int64) (write Write, changes bool) {
	write.Key = q.Key
	if q.after.Used > 0 {
		write.Value = Value{Type: "string", Text: "used:" + strconv.FormatInt(q.after.Used, 10), Expiry: q.after.Expiry}
	}
	return write, q.after != q.before
}

// last is the end of the period that counted the quantity, or "0" if none was counted.
func (q *Quota) last(string, *big.Int) string {
	expiry := inNanoseconds(q.after.Expiry)
	switch {
	case q.taken() <= 0:
		return "0"
	case q.Until == nil || less(expiry, q.Until):
		return seconds(in63Bits(minOf(expiry, maxInt63)))
	}
	return seconds(q.Until.Int64())
}

// inNanoseconds converts milliseconds to nanoseconds.
func inNanoseconds(milliseconds int64) *big.Int {
	return mul(big.NewInt(milliseconds), big.NewInt(1e6))
}
