package contract

import "math/big"

// A Funnel is one row of a call: its key, its rate and the tokens that are asked for.
// Times are nanoseconds. T, tau and inc are those of the contract; slots have none.
type Funnel struct {
	Key             string
	Limit, Quantity *big.Int
	T, Tau, Inc     *big.Int
	Slots           *Slots // or nil
}

// NewFunnel finds what is too large together among arguments that are valid one by one, in
// the module's order: the contract leaves open which of several faults is named.
func NewFunnel(key string, limit, count, period, quantity *big.Int) (Funnel, Error) {
	T := new(big.Int).Quo(period, count)
	tau := new(big.Int).Mul(T, limit)
	inc := new(big.Int).Mul(T, quantity)
	switch {
	case T.Sign() == 0:
		return Funnel{}, ErrEmissionInterval
	case !fits(limit), !fits(tau):
		return Funnel{}, ErrTolerance
	}
	funnel := Funnel{Key: key, Limit: limit, Quantity: quantity, T: T, Tau: tau, Inc: inc}
	if !fits(inc) {
		return funnel, ErrIncrement
	}
	return funnel, ""
}

// Stored is the TAT that a key holds; of slots, when the holder's own ends. No key counts as a TAT
// that has passed.
func (f Funnel) Stored(value Value, now *big.Int) (tat *big.Int, err Error) {
	if f.Slots != nil {
		return f.Slots.stored(value, now)
	}
	switch value.Type {
	case "", "none":
		return new(big.Int), ""
	case "string":
		if tat, ok := Integer(0, value.Text); ok {
			return tat, ""
		}
		return nil, ErrFunnel
	}
	return nil, ErrType
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
// refund, nil where it is left out. Taken is set by take alone.
func (f Funnel) Decide(operation string, tat, now, maxWait, receipt *big.Int) (decision Decision, taken int64, err Error) {
	switch {
	case f.Slots != nil:
		decision, err = f.Slots.decide(operation, f.Limit, now)
	case operation == "reserve":
		decision, err = f.Reserve(tat, now, maxWait)
	case operation == "take":
		return f.Take(tat, now)
	case operation == "peek":
		decision, err = f.Peek(tat, now)
	case operation == "charge":
		decision, err = f.Charge(tat, now)
	case operation == "refund":
		decision, err = f.Refund(tat, now, receipt)
	default:
		panic("unknown operation: " + operation)
	}
	return decision, 0, err
}

// Reserve is the arithmetic of CL.RESERVE, and with a maxWait of 0 that of CL.THROTTLE.
func (f Funnel) Reserve(tat, now, maxWait *big.Int) (Decision, Error) {
	next := new(big.Int).Add(larger(tat, now), f.Inc)
	over := new(big.Int).Sub(next, new(big.Int).Add(now, f.Tau))
	fitsAtAll := f.Inc.Cmp(f.Tau) <= 0

	if over.Sign() > 0 && !(fitsAtAll && over.Cmp(maxWait) <= 0) {
		wait := big.NewInt(-1)
		if fitsAtAll {
			wait.Sub(over, maxWait)
		}
		return f.state(tat, now, true, wait), ""
	}
	if !fits(next) {
		return Decision{}, ErrTAT
	}
	if f.Quantity.Sign() > 0 {
		tat = next
	}
	return f.state(tat, now, false, larger(over, new(big.Int))), ""
}

// Take is the arithmetic of CL.TAKE.
func (f Funnel) Take(tat, now *big.Int) (decision Decision, taken int64, err Error) {
	room := new(big.Int).Sub(new(big.Int).Add(now, f.Tau), larger(tat, now))
	number := new(big.Int)
	if room.Sign() > 0 {
		number.Quo(room, f.T)
	}
	wait := new(big.Int)
	limited := number.Cmp(f.Quantity) < 0
	if !limited {
		number.Set(f.Quantity)
	}
	if number.Sign() > 0 {
		if tat = new(big.Int).Add(larger(tat, now), new(big.Int).Mul(f.T, number)); !fits(tat) {
			return Decision{}, 0, ErrTAT
		}
	}
	if limited { // until another token fits
		wait.Sub(new(big.Int).Add(larger(tat, now), f.T), new(big.Int).Add(now, f.Tau))
	}
	return f.state(tat, now, limited, wait), number.Int64(), ""
}

// Peek is the arithmetic of CL.PEEK.
func (f Funnel) Peek(tat, now *big.Int) (Decision, Error) {
	decision, err := f.Reserve(tat, now, new(big.Int))
	if err == "" {
		decision = f.state(tat, now, decision.Limited, big.NewInt(decision.Wait))
	}
	return decision, err
}

// Charge is the arithmetic of CL.CHARGE.
func (f Funnel) Charge(tat, now *big.Int) (Decision, Error) {
	if f.Quantity.Sign() > 0 {
		tat = new(big.Int).Add(larger(tat, now), f.Inc)
	}
	if !fits(tat) {
		return Decision{}, ErrTAT
	}
	return f.peekZero(tat, now)
}

// Refund is the arithmetic of CL.REFUND, with a receipt or nil.
func (f Funnel) Refund(tat, now, receipt *big.Int) (Decision, Error) {
	back := f.Inc
	if receipt != nil {
		if left := larger(new(big.Int).Sub(receipt, now), new(big.Int)); left.Cmp(back) < 0 {
			back = left
		}
	}
	if tat.Cmp(now) > 0 {
		tat = larger(now, new(big.Int).Sub(tat, back))
	}
	return f.peekZero(tat, now)
}

func (f Funnel) peekZero(tat, now *big.Int) (Decision, Error) {
	f.Quantity, f.Inc = new(big.Int), new(big.Int)
	return f.Peek(tat, now)
}

// state is a decision whose last numbers follow from the TAT after the call.
func (f Funnel) state(tat, now *big.Int, limited bool, wait *big.Int) Decision {
	if f.Slots != nil {
		return f.Slots.state(f.Slots.ends, f.Limit, now, limited, wait)
	}
	level := larger(new(big.Int).Sub(tat, now), new(big.Int))
	remaining := larger(new(big.Int).Sub(f.Tau, level), new(big.Int))
	return Decision{
		Limited:    limited,
		Limit:      in63Bits(f.Limit),
		Remaining:  in63Bits(remaining.Quo(remaining, f.T)),
		Wait:       in63Bits(wait),
		ResetAfter: in63Bits(level),
		TAT:        in63Bits(tat),
	}
}

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// in63Bits panics rather than wrap: the contract says of each of these that it fits.
func in63Bits(number *big.Int) int64 {
	if !number.IsInt64() {
		panic("beyond 63 bits: " + number.String())
	}
	return number.Int64()
}
