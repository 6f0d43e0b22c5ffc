package contract

import (
	"math/big"
	"strconv"
)

// A Funnel is a row that limits a rate: its key, its rate and the tokens that are asked for. Times
// are nanoseconds. T, Tau and Inc are T, tau and inc of the contract.
type Funnel struct {
	Key             string
	Limit, Quantity *big.Int
	T, Tau, Inc     *big.Int

	tat   *big.Int // as stored
	next  int64    // the TAT after the call; the stored one if nothing is taken
	taken int64    // tokens, by take alone
}

// parseFunnel reads key, capacity, count, period and quantity.
func parseFunnel(operation string, mode Mode, words [5]string) (Row, Error) {
	capacity, isCapacity := Integer(1-int64(mode), words[1])
	count, isCount := Integer(1, words[2])
	period, isPeriod := Seconds(words[3])
	quantity, isQuantity := Integer(0, words[4])
	switch {
	case !isCapacity:
		return nil, ErrCapacity
	case !isCount:
		return nil, ErrCount
	case !isPeriod || period.Sign() == 0:
		return nil, ErrPeriod
	case !isQuantity:
		return nil, ErrQuantity
	}

	// Arguments that are valid one by one may be too large together. The contract does not say
	// which of several faults an error names: this is the module's order. No quantity is too large
	// for take.
	limit := add(capacity, big.NewInt(int64(mode)))
	T := quo(period, count)
	tau, inc := mul(T, limit), mul(T, quantity)
	switch {
	case T.Sign() == 0:
		return nil, ErrEmissionInterval
	case !fits(limit), !fits(tau):
		return nil, ErrTolerance
	case !fits(inc) && operation != "take":
		return nil, ErrIncrement
	}
	return &Funnel{Key: words[0], Limit: limit, Quantity: quantity, T: T, Tau: tau, Inc: inc}, ""
}

func (f *Funnel) key() string { return f.Key }

func (f *Funnel) asks() bool { return f.Quantity.Sign() > 0 }

// read takes the stored TAT. A missing key is an empty funnel.
func (f *Funnel) read(value Value, _ *big.Int) Error {
	switch value.Type {
	case "":
		f.tat = zero
		return ""
	case "string":
		tat, ok := Integer(0, value.Text)
		if !ok {
			return ErrFunnel
		}
		f.tat = tat
		return ""
	}
	return ErrType
}

func (f *Funnel) takeBack(now *big.Int) Answer {
	answer, _ := f.decide("peek", now, zero, maxInt63)
	return answer
}

func (f *Funnel) decide(operation string, now, maxWait, receipt *big.Int) (Answer, Error) {
	begin, full := maxOf(f.tat, now), add(now, f.Tau)
	change, number := f.Inc, zero
	switch operation {
	case "take":
		room := maxOf(sub(full, begin), zero)
		number = minOf(quo(room, f.T), f.Quantity)
		change = mul(f.T, number)
	case "refund":
		back := minOf(f.Inc, sub(begin, now), maxOf(sub(receipt, now), zero))
		change = sub(zero, back)
	}
	after := add(begin, change)

	limited, wait := less(full, after), maxOf(sub(after, full), zero)
	refused := limited && (operation == "reserve" || operation == "peek")
	switch {
	case operation == "take":
		limited, wait = less(number, f.Quantity), zero
		if limited {
			wait = sub(add(after, f.T), full) // until another token fits
		}
	case !refused:
	case less(f.Tau, f.Inc):
		wait = big.NewInt(-1)
	case operation == "reserve" && !less(maxWait, wait):
		limited, refused = false, false
	case operation == "reserve":
		wait = sub(wait, maxWait)
	}

	if !refused && !fits(after) {
		return Answer{}, ErrTAT
	}
	if refused || operation == "peek" || change.Sign() == 0 {
		after = f.tat
	}
	f.next, f.taken = in63Bits(after), in63Bits(number)
	level := maxOf(sub(after, now), zero)
	return Answer{
		Limited:    limited,
		Limit:      in63Bits(f.Limit),
		Remaining:  in63Bits(quo(maxOf(sub(f.Tau, level), zero), f.T)),
		Wait:       in63Bits(wait),
		ResetAfter: in63Bits(level),
	}, ""
}

// write stores the TAT, and deletes the key of an empty funnel.
func (f *Funnel) write(now int64) (write Write, changes bool) {
	write.Key = f.Key
	if f.next > now {
		write.Value = Value{Type: "string", Text: strconv.FormatInt(f.next, 10), Expiry: roundedUp(big.NewInt(f.next), 1e6)}
	}
	return write, f.next != f.tat.Int64()
}

// last is the receipt if the call took tokens, otherwise "0".
func (f *Funnel) last(operation string, _ *big.Int) string {
	if f.next == f.tat.Int64() || operation == "refund" {
		return "0"
	}
	return strconv.FormatInt(f.next, 10)
}
