package contract

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
)

// Slots are a row that limits what is in flight. They have the slot that the call asks for, and the
// set as it is stored. Ends are in milliseconds.
type Slots struct {
	Key    string
	Limit  *big.Int
	TTL    *big.Int // nanoseconds
	Holder string

	scores map[string]float64 // of all members
	ends   map[string]int64   // of the running slots
	own    int64              // the end of the holder's slot after the call, or 0 if it has none
}

// parseSlots reads key, limit, SLOTS, ttl and holder.
func parseSlots(words [5]string) (Row, Error) {
	limit, isLimit := Integer(0, words[1])
	ttl, isTTL := Seconds(words[3])
	holder := words[4]
	switch {
	case !isLimit:
		return nil, ErrLimit
	case !isTTL || less(ttl, big.NewInt(1e6)):
		return nil, ErrTTL
	case len(holder) < 1 || len(holder) > 255:
		return nil, ErrHolder
	}
	return &Slots{Key: words[0], Limit: limit, TTL: ttl, Holder: holder}, ""
}

func (s *Slots) key() string { return s.Key }

func (s *Slots) asks() bool { return true }

// read takes the set, and finds the slots that run.
func (s *Slots) read(value Value, now *big.Int) Error {
	if value.Type != "zset" && value.Type != "" {
		return ErrType
	}
	s.scores, s.ends = value.Scores, map[string]int64{}
	for member, score := range value.Scores {
		end := endOf(score)
		if end > now.Int64()/1e6 {
			s.ends[member] = end
		}
	}
	return ""
}

func (s *Slots) takeBack(now *big.Int) Answer {
	answer, _ := s.decide("peek", now, zero, zero)
	return answer
}

func (s *Slots) decide(operation string, now, _, _ *big.Int) (a Answer, err Error) {
	limit, after := s.Limit.Int64(), map[string]int64{}
	maps.Copy(after, s.ends)
	switch {
	case operation == "refund":
		delete(after, s.Holder)
	case operation == "charge" || s.ends[s.Holder] > 0 || int64(len(s.ends)) < limit:
		end := add(now, s.TTL)
		if !fits(end) {
			return Answer{}, ErrEnd
		}
		after[s.Holder] = roundedUp(end, 1e6)
		a.Limited = operation == "charge" && int64(len(after)) > limit
	default:
		a.Limited = true
	}
	if operation == "peek" {
		after = s.ends
	}
	sorted := slices.Sorted(maps.Values(after))
	if len(sorted) > 0 {
		a.ResetAfter = until(sorted[len(sorted)-1], now)
	}
	if a.Limited && operation != "charge" && limit == 0 {
		a.Wait = -1
	} else if a.Limited {
		a.Wait = until(sorted[0], now)
	}
	a.Limit, a.Remaining = limit, max(0, limit-int64(len(after)))
	s.own = after[s.Holder]
	return a, ""
}

// write adds or removes the holder, and removes up to 1,000 slots that have ended. The key expires
// at the last end.
func (s *Slots) write(int64) (write Write, changes bool) {
	left := map[string]float64{}
	maps.Copy(left, s.scores)
	delete(left, s.Holder)
	ended := slices.SortedFunc(maps.Keys(left), func(a, b string) int {
		return cmp.Or(cmp.Compare(left[a], left[b]), cmp.Compare(a, b))
	})
	ended = slices.DeleteFunc(ended, func(member string) bool { return s.ends[member] > 0 })
	for _, member := range ended[:min(len(ended), 1000)] {
		delete(left, member)
	}
	if s.own > 0 {
		left[s.Holder] = float64(s.own)
	}
	write.Key = s.Key
	if len(left) > 0 {
		last := endOf(slices.Max(slices.Collect(maps.Values(left))))
		if last == math.MaxInt64 {
			last = NoExpiry
		}
		write.Value = Value{Type: "zset", Scores: left, Expiry: last}
	}
	return write, s.own != s.ends[s.Holder]
}

// last is how much longer the holder's slot would have run.
func (s *Slots) last(_ string, now *big.Int) string { return seconds(until(s.ends[s.Holder], now)) }

// endOf is the end of a slot with that score, rounded up, from 0 to 2^63-1.
func endOf(score float64) int64 {
	if score >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(max(0, score)))
}

// until is the time until an end, from 0 to 2^63-1 nanoseconds.
func until(end int64, now *big.Int) int64 {
	span := sub(mul(big.NewInt(end), big.NewInt(1e6)), now)
	return in63Bits(minOf(maxOf(span, zero), maxInt63))
}
