package contract

import "math/big"

// A Funnel is one funnel of a call: its key, its rate and the tokens that are asked for.
// Times are nanoseconds. T, tau and inc are those of the contract.
type Funnel struct {
	Key             string
	Limit, Quantity *big.Int
	T, Tau, Inc     *big.Int
}

// NewFunnel finds what is too large together among arguments that are valid one by one.
// The contract leaves open which is named where several things are; this is the module's
// order.
func NewFunnel(key string, limit, count, period, quantity *big.Int) (Funnel, Error) {
	T := new(big.Int).Quo(period, count)
	tau := new(big.Int).Mul(T, limit)
	inc := new(big.Int).Mul(T, quantity)
	switch {
	case !fits(limit):
		return Funnel{}, ErrTolerance
	case T.Sign() == 0:
		return Funnel{}, ErrEmissionInterval
	case !fits(tau):
		return Funnel{}, ErrTolerance
	case !fits(inc):
		return Funnel{}, ErrIncrement
	}
	return Funnel{key, limit, quantity, T, tau, inc}, ""
}

// Stored is the TAT that a key holds. No key counts as a TAT that has passed.
func (f Funnel) Stored(value Value) (tat *big.Int, err Error) {
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
	RetryAfter int64 // -1 for none
	ResetAfter int64
	TAT        int64 // stored; that of before, when nothing was poured
}

// Decide is the arithmetic of the contract.
func (f Funnel) Decide(tat, now *big.Int) (Decision, Error) {
	later := now
	if tat.Cmp(now) > 0 {
		later = tat
	}
	next := new(big.Int).Add(later, f.Inc)
	over := new(big.Int).Sub(next, f.Tau)
	over.Sub(over, now)

	limited := over.Sign() > 0
	retryAfter := big.NewInt(-1)
	level := new(big.Int).Sub(later, now)
	if limited {
		if f.Inc.Cmp(f.Tau) <= 0 {
			retryAfter = over
		}
	} else {
		if !fits(next) {
			return Decision{}, ErrTAT
		}
		level.Sub(next, now)
		if f.Quantity.Sign() > 0 {
			tat = next
		}
	}

	remaining := new(big.Int).Sub(f.Tau, level)
	if remaining.Sign() < 0 {
		remaining.SetInt64(0)
	}
	remaining.Quo(remaining, f.T)
	return Decision{
		Limited:    limited,
		Limit:      in63Bits(f.Limit),
		Remaining:  in63Bits(remaining),
		RetryAfter: in63Bits(retryAfter),
		ResetAfter: in63Bits(level),
		TAT:        in63Bits(tat),
	}, ""
}

// in63Bits panics rather than wrap: the contract says of each of these that it fits.
func in63Bits(number *big.Int) int64 {
	if !number.IsInt64() {
		panic("beyond 63 bits: " + number.String())
	}
	return number.Int64()
}
