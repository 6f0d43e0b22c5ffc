// Package gcra implements the generic cell rate algorithm (GCRA), which limits the rate of calls,
// in integers of nanoseconds.
//
// # The funnel
//
//	\  new tokens /          a call takes tokens: it pours water in
//	 \  |  |  |  /
//	  \ v  v  v /   -------  capacity: a call whose tokens do not fit is limited
//	   \~~~~~~~/    -------  level: the water in the funnel right now
//	    \     /
//	     \   /
//	      | |
//	       .                 the spout: one token leaks per emission interval
//
// A funnel holds capacity tokens and leaks at a fixed rate. A call is allowed if all of its tokens
// fit at once. Otherwise it is limited, and changes nothing.
//
// # The algorithm
//
// GCRA, from ATM networks (ITU-T I.371), computes that funnel. Instead of a level and the time of
// its last update it keeps one number, the theoretical arrival time (TAT): the instant at which the
// funnel will be empty.
//
//	emission interval  T    = period / count   one token leaks every T
//	tolerance          tau  = T * capacity     how long a full funnel takes to drain
//	level                   = TAT - now        how long the present level takes to drain
//	taking n tokens         : TAT = max(now, TAT) + T*n
//	it fits                 : the new TAT is no later than now + tau
//
// Nothing has to leak in the background: as time passes, the level falls by itself. A TAT in the
// past means an empty funnel, which need not be stored.
//
// # Units
//
// Every time is a count of nanoseconds in an int64; instants count from the Unix epoch. The
// arithmetic is exact: there is no floating point, products have 128 bits and sums 64 unsigned
// bits, and a result that does not fit 63 bits is an [Error] rather than a wrong answer.
//
// The package reads no clock and allocates nothing. Package funnel/module/command runs it inside a
// server without the Go runtime, so it must not need the runtime even for more stack: hence the
// directive go:nosplit at each function.
package gcra

import "math/bits"

// Empty is the TAT of an empty funnel, even if it was never used. Any TAT at or before now means
// the same.
const Empty int64 = 0

// maxInt63 is the largest instant or span that can be represented.
const maxInt63 = 1<<63 - 1

// A Rate is the shape of a funnel: how many tokens it holds and how fast they leak. Make one with
// [NewRate]: [Rate.Request] refuses the zero Rate.
type Rate struct {
	capacity         int64
	emissionInterval int64
	tolerance        int64
}

// NewRate returns the rate of a funnel that holds capacity tokens and leaks count tokens per
// period. Capacity and count are at least 1, period is at least 1 nanosecond; smaller values are
// reported as [ErrCapacity], [ErrCount] and [ErrPeriod].
//
// The emission interval is period/count rounded down to the nanosecond, so a funnel never leaks
// slower than asked. [ErrEmissionInterval] says that it would be below one nanosecond.
// [ErrTolerance] says that a full funnel would take 2^63 nanoseconds (292 years) or more to drain.
//
//go:nosplit
func NewRate(capacity, count, period int64) (Rate, error) {
	switch {
	case capacity < 1:
		return Rate{}, ErrCapacity
	case count < 1:
		return Rate{}, ErrCount
	case period < 1:
		return Rate{}, ErrPeriod
	}
	emissionInterval := period / count
	if emissionInterval < 1 {
		return Rate{}, ErrEmissionInterval
	}
	tolerance, ok := product(emissionInterval, capacity)
	if !ok {
		return Rate{}, ErrTolerance
	}
	return Rate{capacity, emissionInterval, tolerance}, nil
}

// Capacity is the number of tokens that fit into the empty funnel, at least 1.
//
//go:nosplit
func (r Rate) Capacity() int64 { return r.capacity }

// EmissionInterval is the time in which one token leaks, in nanoseconds, at least 1.
//
//go:nosplit
func (r Rate) EmissionInterval() int64 { return r.emissionInterval }

// Tolerance is the time in which the full funnel drains, in nanoseconds: capacity times emission
// interval.
//
//go:nosplit
func (r Rate) Tolerance() int64 { return r.tolerance }

// Increment is the time in which quantity tokens leak, in nanoseconds: quantity times emission
// interval. A negative quantity is reported as [ErrQuantity], and [ErrIncrement] says that the
// tokens would take 2^63 nanoseconds or more.
//
//go:nosplit
func (r Rate) Increment(quantity int64) (int64, error) {
	if quantity < 0 {
		return 0, ErrQuantity
	}
	increment, ok := product(r.emissionInterval, quantity)
	if !ok {
		return 0, ErrIncrement
	}
	return increment, nil
}

// product multiplies two numbers that are not negative. It returns false as ok if the result does
// not fit 63 bits.
//
//go:nosplit
func product(a, b int64) (result int64, ok bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && low <= maxInt63
}
