package gcra

import "math/bits"

const nanosecondsPerMillisecond = 1_000_000

// SlotsRequest asks for one of several slots, at least 0, for ttl nanoseconds, at least a
// millisecond. Values below are reported as [ErrLimit] and [ErrTTL]. A limit of 0 renews a slot,
// and gives none.
//
// Slots limit what is in flight instead of a rate: at most limit holders at once, each for a time
// to live (ttl) unless it renews its slot or gives it back. A call may have items of both kinds.
//
// The state of slots is the end of each slot, in milliseconds since the epoch. A slot runs until
// the clock, in whole milliseconds, reaches its end. An [Item] of slots needs of that:
//
//	TAT      when the holder's own slot ends, or 0 if it has none that runs
//	Running  how many slots run, the holder's own included; any number above the limit means the same
//	First    when the first of the others that run ends; it does not matter if fewer than limit run
//	Last     when the last of them ends; 0, as First, if there are none
//
// Decision.TAT is when the holder's own ends after the call, or 0. The other fields of the Decision
// mean what they do for a funnel: Remaining counts slots, Wait is the time until the first one
// ends, and ResetAfter until the last one does.
//
//go:nosplit
func SlotsRequest(limit, ttl int64) (Request, error) {
	switch {
	case limit < 0:
		return Request{}, ErrLimit
	case ttl < nanosecondsPerMillisecond:
		return Request{}, ErrTTL
	}
	return Request{rate: Rate{capacity: limit}, quantity: 1, increment: ttl, isSlots: true}, nil
}

// IsSlots reports whether the request is one of [SlotsRequest].
//
//go:nosplit
func (r *Request) IsSlots() bool { return r.isSlots }

// decideSlots is the operation on slots.
//
//   - Reserve allows the call if the holder has a slot or one is free. Its end becomes now + ttl,
//     rounded up to the millisecond.
//   - Peek says what Reserve would, and changes nothing.
//   - Charge takes a slot whether or not one is free, and is limited if more than limit run then.
//   - Refund ends the holder's slot.
//
//go:nosplit
func (item *Item) decideSlots(operation Operation, now int64) error {
	now = max(now, 0)
	limit, end := item.Request.rate.capacity, item.TAT
	limited := false
	switch {
	case operation == Refund:
		end = 0
	case operation == Charge || end > 0 || item.Running < limit:
		filled := uint64(now) + uint64(item.Request.increment)
		if filled > maxInt63 {
			return ErrEnd
		}
		end = Milliseconds(int64(filled))
		limited = operation == Charge && item.runningWith(end) > limit
	default:
		limited = true
	}
	if operation == Peek {
		end = item.TAT
	}
	item.decideSlotsState(end, now)
	if item.Decision.Limited = limited; limited {
		first := item.First
		if end > 0 && (first == 0 || end < first) {
			first = end
		}
		item.Decision.Wait = Never
		if first > 0 && (limit > 0 || operation == Charge) {
			item.Decision.Wait = UntilMillisecond(first, now)
		}
	}
	return nil
}

// runningWith is how many slots run if the holder's own ends then, or is none.
//
//go:nosplit
func (item *Item) runningWith(end int64) int64 {
	running := item.Running
	if item.TAT > 0 {
		running--
	}
	if end > 0 {
		running++
	}
	return running
}

// decideSlotsState fills in the Decision of slots of which the holder's own ends then, or is none.
//
//go:nosplit
func (item *Item) decideSlotsState(end, now int64) {
	limit := item.Request.rate.capacity
	item.Decision = Decision{
		Limit:      limit,
		Remaining:  max(0, limit-item.runningWith(end)),
		ResetAfter: UntilMillisecond(max(item.Last, end), now),
		TAT:        end,
	}
}

// UntilMillisecond is the time from an instant in nanoseconds until one in milliseconds: 0 if that
// has passed, and at most 2^63-1. From now until the TAT of an [Item] before the call, it is how
// long the holder's slot would have run on.
//
//go:nosplit
func UntilMillisecond(end, now int64) int64 {
	high, low := bits.Mul64(uint64(max(end, 0)), nanosecondsPerMillisecond)
	passed := uint64(max(now, 0))
	if high > 0 {
		return maxInt63
	}
	return int64(min(max(low, passed)-passed, maxInt63))
}
