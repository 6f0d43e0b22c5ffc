package contract

import (
	"math/big"
	"strconv"
)

// A Funnel is one row of a call: its key, its rate and the tokens that are asked for.
// Times are nanoseconds. T, tau and inc are those of the contract; slots have none.
type Funnel struct {
	Key             string
	Limit, Quantity *big.Int
	T, Tau, Inc     *big.Int
	Slots           *Slots // or nil
}

// parseFunnel reads key, capacity, count, period and quantity.
func parseFunnel(operation string, mode Mode, words [5]string) (Funnel, Error) {
	capacity, isCapacity := Integer(1-int64(mode), words[1])
	count, isCount := Integer(1, words[2])
	period, isPeriod := Seconds(words[3])
	quantity, isQuantity := Integer(0, words[4])
	switch {
	case !isCapacity:
		return Funnel{}, ErrCapacity
	case !isCount:
		return Funnel{}, ErrCount
	case !isPeriod || period.Sign() == 0:
		return Funnel{}, ErrPeriod
	case !isQuantity:
		return Funnel{}, ErrQuantity
	}
	return NewFunnel(operation, words[0], add(capacity, big.NewInt(int64(mode))), count, period, quantity)
}

// NewFunnel finds what is too large together among arguments that are valid one by one, in
// the module's order: the contract leaves open which of several faults is named. No quantity
// is too large for take.
func NewFunnel(operation, key string, limit, count, period, quantity *big.Int) (Funnel, Error) {
	T := quo(period, count)
	tau, inc := mul(T, limit), mul(T, quantity)
	switch {
	case T.Sign() == 0:
		return Funnel{}, ErrEmissionInterval
	case !fits(limit), !fits(tau):
		return Funnel{}, ErrTolerance
	case !fits(inc) && operation != "take":
		return Funnel{}, ErrIncrement
	}
	return Funnel{Key: key, Limit: limit, Quantity: quantity, T: T, Tau: tau, Inc: inc}, ""
}

// stored is the TAT that a key holds; of slots, when the holder's own ends. No key counts as a TAT
// that has passed.
func (f Funnel) stored(value Value, now *big.Int) (tat *big.Int, err Error) {
	switch {
	case f.Slots != nil:
		return f.Slots.stored(value, now)
	case value.Type == "":
		return zero, ""
	case value.Type != "string":
		return nil, ErrType
	}
	tat, ok := Integer(0, value.Text)
	if !ok {
		return nil, ErrFunnel
	}
	return tat, ""
}

// A Decision is what a funnel says to a call, in nanoseconds.
type Decision struct {
	Limited    bool
	Limit      int64
	Remaining  int64
	Wait       int64 // -1 for never
	ResetAfter int64
	TAT        int64 // stored; that of before, when nothing was taken
}

// Decide is the arithmetic of an operation. MaxWait is for reserve alone, and receipt for
// refund, as late as can be where it is left out. Taken is set by take alone.
func (f Funnel) Decide(operation string, tat, now, maxWait, receipt *big.Int) (decision Decision, taken int64, err Error) {
	if f.Slots != nil {
		decision, err = f.Slots.decide(operation, f.Limit, now)
		return decision, 0, err
	}
	begin, full := largest(tat, now), add(now, f.Tau)
	change, number := f.Inc, zero
	switch operation {
	case "take":
		room := largest(sub(full, begin), zero)
		number = smallest(quo(room, f.T), f.Quantity)
		change = mul(f.T, number)
	case "refund":
		back := smallest(f.Inc, sub(begin, now), largest(sub(receipt, now), zero))
		change = sub(zero, back)
	}
	next := add(begin, change)

	limited, wait := less(full, next), largest(sub(next, full), zero)
	refused := limited && (operation == "reserve" || operation == "peek")
	switch {
	case operation == "take":
		if limited, wait = less(number, f.Quantity), zero; limited {
			wait = sub(add(next, f.T), full) // until another token fits
		}
	case !refused:
	case less(f.Tau, f.Inc):
		wait = big.NewInt(-1)
	case operation == "reserve" && !less(maxWait, wait):
		limited, refused = false, false
	case operation == "reserve":
		wait = sub(wait, maxWait)
	}

	if !refused && !fits(next) {
		return Decision{}, 0, ErrTAT
	}
	if refused || operation == "peek" || change.Sign() == 0 {
		next = tat
	}
	level := largest(sub(next, now), zero)
	return Decision{
		Limited:    limited,
		Limit:      in63Bits(f.Limit),
		Remaining:  in63Bits(quo(largest(sub(f.Tau, level), zero), f.T)),
		Wait:       in63Bits(wait),
		ResetAfter: in63Bits(level),
		TAT:        in63Bits(next),
	}, in63Bits(number), ""
}

// write stores a TAT or, of slots, when the holder's own ends.
func (f Funnel) write(tat, now int64) Write {
	switch {
	case f.Slots != nil:
		return f.Slots.write(f.Key, tat)
	case tat <= now:
		return Write{Key: f.Key}
	}
	return Write{Key: f.Key, Value: strconv.FormatInt(tat, 10), Expiry: roundedUp(big.NewInt(tat), 1e6)}
}
