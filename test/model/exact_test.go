package model_test

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"funnel/gcra"
	"funnel/internal/servertest"
)

// The models that a history is checked against: package gcra with a clock that is
// known to the nanosecond, and with one of which only bounds are known.

// An exactState is all that decides over an answer when the clock is set by hand.
type exactState struct{ now, tat int64 }

// exactModel is package gcra with a clock that operations set: it knows every
// answer to the nanosecond.
var exactModel = porcupine.Model{
	Init: func() any { return exactState{tat: gcra.Empty} },
	Step: func(state, input, output any) (bool, any) {
		before, operation, result := state.(exactState), input.(operation), output.(result)
		switch operation.action {
		case setClock:
			return true, exactState{now: operation.instant, tat: before.tat}
		case read:
			return result.tat == before.tat, before
		}
		decision, err := operation.funnel.rate().Decide(before.tat, before.now, operation.quantity)
		if err != nil || result.reply != toSeconds(decision) {
			return false, before
		}
		after := exactState{now: before.now, tat: decision.TAT}
		return operation.action == pour || result.tat == after.tat, after
	},
}

// toSeconds is the answer that the contract derives from a decision.
func toSeconds(decision gcra.Decision) servertest.Reply {
	limited := int64(0)
	if decision.Limited {
		limited = 1
	}
	return servertest.Reply{limited, decision.Limit, decision.Remaining,
		gcra.Seconds(decision.RetryAfter), gcra.Seconds(decision.ResetAfter)}
}

// A span is a range of nanoseconds, both ends included.
type span struct{ from, to int64 }

func (s span) and(other span) span  { return span{max(s.from, other.from), min(s.to, other.to)} }
func (s span) shift(by int64) span  { return span{s.from + by, s.to + by} }
func (s span) plus(other span) span { return span{s.from + other.from, s.to + other.to} }
func (s span) empty() bool          { return s.from > s.to }
func (s span) hull(other span) span {
	switch {
	case s.empty():
		return other
	case other.empty():
		return s
	}
	return span{min(s.from, other.from), max(s.to, other.to)}
}

// highest is above any level: half of 63 bits, so that sums fit.
const highest = math.MaxInt64 / 2

// nothing is an empty span.
var nothing = span{1, 0}

// boundedModel is gcra with a real clock, of which only bounds are known. Its
// state is the span in which the TAT must lie for all answers so far; what an
// answer says of the level, and the clock's bounds, narrow it. Reading
// the TAT makes it exact.
//
// Spans are rounded outwards wherever they are not exact, so that the model never
// rejects what a correct server may reply.
var boundedModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{span{gcra.Empty, gcra.Empty}} },
	Step: func(state, input, output any) []any {
		tat, operation, result := state.(span), input.(operation), output.(result)
		clock := span{operation.earliest, operation.latest}
		var after []any
		add := func(tat span) {
			if operation.action == pourAndRead && !result.unknown {
				tat = narrow(tat, clock, result.tat)
			}
			if !tat.empty() {
				after = append(after, tat)
			}
		}
		switch {
		case operation.action == read && result.unknown:
			add(tat)
		case operation.action == read:
			add(narrow(tat, clock, result.tat))
		case result.unknown:
			add(tat)
			inc := operation.funnel.rate().EmissionInterval() * operation.quantity
			level := span{inc, operation.funnel.rate().Tolerance()}
			add(poured(tat, clock, inc, level))
		case result.reply[0] == 0 && operation.quantity > 0:
			inc := operation.funnel.rate().EmissionInterval() * operation.quantity
			add(poured(tat, clock, inc, levelOf(operation, result.reply)))
		default:
			add(peeked(tat, clock, levelOf(operation, result.reply)))
		}
		return after
	},
}).ToModel()

// narrow is what is known of a TAT once it has been read. A key that is not there
// has expired, unless there never was one.
func narrow(tat, clock span, read int64) span {
	if read == gcra.Empty {
		return tat.and(span{0, clock.to})
	}
	return tat.and(span{read, read})
}

// poured is where the TAT lies after inc was added to the funnel, which raised its
// level to one within the span.
func poured(tat, clock span, inc int64, level span) span {
	before := level.shift(-inc).and(span{0, highest})
	if before.empty() {
		return before
	}
	drained := nothing
	if before.from == 0 {
		// The TAT may have passed; then the new one counts from now.
		drained = clock.and(span{tat.from, math.MaxInt64})
	}
	return drained.hull(tat.and(clock.plus(before))).shift(inc)
}

// peeked is where the TAT lies when the level, which has not changed, is within
// the span.
func peeked(tat, clock span, level span) span {
	level = level.and(span{0, highest})
	if level.empty() {
		return level
	}
	known := clock.plus(level)
	if level.from == 0 {
		known.from = 0 // it may have passed long ago
	}
	return tat.and(known)
}

// levelOf is the span in which the level of the funnel after the call lies, from
// all that the reply says of it. It is empty for a reply that contradicts itself.
func levelOf(operation operation, reply servertest.Reply) span {
	rate := operation.funnel.rate()
	interval, tolerance := rate.EmissionInterval(), rate.Tolerance()
	inc := interval * operation.quantity
	limited, remaining, retry, reset := reply[0] == 1, reply[2], reply[3], reply[4]
	if reply[1] != rate.Capacity() || remaining < 0 || reset < 0 {
		return nothing
	}

	level := seconds(reset)
	fits := span{tolerance - (remaining+1)*interval + 1, tolerance - remaining*interval}
	if remaining == 0 {
		fits.to = highest
	}
	level = level.and(fits)
	switch {
	case !limited && retry == -1:
		return level.and(span{0, tolerance})
	case !limited:
		return nothing
	case retry == -1 && inc > tolerance:
		return level
	case retry < 1 || inc > tolerance:
		return nothing
	}
	return level.and(seconds(retry).shift(tolerance - inc))
}

// seconds is the span of nanoseconds that are rounded up to so many seconds.
func seconds(count int64) span {
	return span{(count-1)*int64(time.Second) + 1, count * int64(time.Second)}
}
