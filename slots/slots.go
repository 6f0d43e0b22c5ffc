// Package slots limits what is in flight: at most limit holders have a slot at once. A holder has
// its slot for a time to live (ttl), unless it renews the slot or gives it back. So the slot of a
// crashed holder becomes free by itself.
//
// # The state
//
// The state of a key is a set of slots: the holder of each slot, and its end. An end is in
// milliseconds since the Unix epoch. A slot runs until the clock, in whole milliseconds, reaches
// its end. Slots that have ended do not count. The caller keeps the set; a decision needs only the
// four numbers of a [State].
//
// # Units
//
// Apart from ends, every time is a count of nanoseconds in an int64. A sum that does not fit 63
// bits is an [Error] rather than a wrong answer.
//
// The package reads no clock and allocates nothing. Package funnel/module/command runs it inside a
// server without the Go runtime, so it must not need the runtime even for more stack: hence the
// directive go:nosplit at each function.
package slots

import (
	"math/bits"

	"funnel/internal/decision"
)

const (
	nanosecondsPerMillisecond = 1_000_000
	maxInt63                  = 1<<63 - 1
)

// A Request asks for one of several slots. Make one with [NewRequest].
type Request struct{ limit, ttl int64 }

// NewRequest asks for one of limit slots, at least 0, for ttl nanoseconds, at least a millisecond.
// Smaller values are reported as [ErrLimit] and [ErrTTL]. With a limit of 0, Reserve renews a slot,
// and gives none.
//
//go:nosplit
func NewRequest(limit, ttl int64) (Request, error) {
	switch {
	case limit < 0:
		return Request{}, ErrLimit
	case ttl < nanosecondsPerMillisecond:
		return Request{}, ErrTTL
	}
	return Request{limit, ttl}, nil
}

// end returns the end of a slot that begins now, in milliseconds, rounded up.
//
//go:nosplit
func (r *Request) end(now int64) (int64, error) {
	nanoseconds := uint64(now) + uint64(r.ttl) // both are below 2^63
	if nanoseconds > maxInt63 {
		return 0, ErrEnd
	}
	return int64((nanoseconds + nanosecondsPerMillisecond - 1) / nanosecondsPerMillisecond), nil
}

// A State describes the slots of a key to one of its holders. Ends are in milliseconds.
type State struct {
	// Own is the end of the holder's slot, or 0 if the holder has no running slot.
	Own int64

	// Running is the number of running slots, including the holder's. All numbers above the limit
	// mean the same.
	Running int64

	// First is when the first running slot of another holder ends, or 0 if there is none. It does
	// not matter if fewer than limit slots run.
	First int64

	// Last is when the last running slot of another holder ends, or 0 if there is none.
	Last int64
}

// Slots are the part of one call that concerns slots: the request, the state and the decision. The
// methods are the operations on slots, at the instant now. Each method sets Decision, Held and End,
// and nothing else changes. Instants before 1970 count as 0.
//
// The only error of the methods is [ErrEnd]. After an error, do not use the decision.
type Slots struct {
	Request Request
	State   State

	// Decision is the answer. Limited says that no slot was free, or for Charge that more than
	// limit slots run; Wait is then the time until the first slot ends. Remaining is how many slots
	// are free, and ResetAfter is the time until the last slot ends.
	decision.Decision

	// Held is how much longer the holder's slot would have run without this call, in nanoseconds.
	Held int64

	// End is the end of the holder's slot after this call, in milliseconds, or 0 if the holder has
	// no slot. Store it if [Slots.Changes].
	End int64
}

// Reserve takes a slot for the holder, or renews the holder's slot: it ends ttl from now. The call
// is limited if the holder has no slot and none is free.
//
//go:nosplit
func (s *Slots) Reserve(now int64) error {
	now = max(now, 0)
	if s.State.Own == 0 && s.State.Running >= s.Request.limit {
		s.report(0, now)
		s.Limited = true
		s.Wait = decision.Never
		if s.State.First > 0 && s.Request.limit > 0 {
			s.Wait = until(s.State.First, now)
		}
		return nil
	}
	end, err := s.Request.end(now)
	if err != nil {
		return err
	}
	s.report(end, now)
	return nil
}

// Peek decides like Reserve, and takes nothing: Remaining and ResetAfter are the state as it is.
//
//go:nosplit
func (s *Slots) Peek(now int64) error {
	err := s.Reserve(now)
	if err != nil {
		return err
	}
	limited, wait := s.Limited, s.Wait
	s.Undo(now)
	s.Limited, s.Wait = limited, wait
	return nil
}

// Charge takes or renews a slot even if none is free. Limited then says that more than limit slots
// run.
//
//go:nosplit
func (s *Slots) Charge(now int64) error {
	now = max(now, 0)
	end, err := s.Request.end(now)
	if err != nil {
		return err
	}
	s.report(end, now)
	if s.running(end) > s.Request.limit {
		first := end
		if s.State.First > 0 {
			first = min(first, s.State.First)
		}
		s.Limited = true
		s.Wait = until(first, now)
	}
	return nil
}

// Refund ends the holder's slot. If the holder has no slot, it does nothing.
//
//go:nosplit
func (s *Slots) Refund(now int64) { s.report(0, max(now, 0)) }

// Undo reverses a Reserve that was allowed, because another row of the same call is limited: no
// slot is taken. The decision stays allowed, and describes the state as it is.
//
//go:nosplit
func (s *Slots) Undo(now int64) { s.report(s.State.Own, max(now, 0)) }

// Changes reports whether the call changes the holder's slot, so that its end must be stored, or
// removed if it is 0.
//
//go:nosplit
func (s *Slots) Changes() bool { return s.End != s.State.Own }

// report fills in the decision of a call that is not limited. After the call, the holder's slot
// ends at end; 0 means that the holder has no slot.
//
//go:nosplit
func (s *Slots) report(end, now int64) {
	s.Asks = true
	s.Limited = false
	s.Limit = s.Request.limit
	s.Remaining = max(0, s.Request.limit-s.running(end))
	s.Wait = 0
	s.ResetAfter = until(max(s.State.Last, end), now)
	s.Held = until(s.State.Own, now)
	s.End = end
}

// running returns how many slots run if the holder's slot ends at end; 0 means that the holder has
// no slot.
//
//go:nosplit
func (s *Slots) running(end int64) int64 {
	running := s.State.Running
	if s.State.Own > 0 {
		running--
	}
	if end > 0 {
		running++
	}
	return running
}

// until returns the time from now, in nanoseconds, until end, in milliseconds: 0 if end has passed,
// and at most 2^63-1.
//
//go:nosplit
func until(end, now int64) int64 {
	high, low := bits.Mul64(uint64(max(end, 0)), nanosecondsPerMillisecond)
	passed := uint64(now)
	if high > 0 {
		return maxInt63
	}
	return int64(min(max(low, passed)-passed, maxInt63))
}
