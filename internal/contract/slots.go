package contract

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Slots are a row of slots: what is asked, and the set as it is stored. Ends are in milliseconds.
type Slots struct {
	holder string
	ttl    *big.Int // nanoseconds

	scores map[string]float64 // of all members
	ends   map[string]int64   // of those that run
}

// parseSlots reads key, limit, SLOTS, ttl and holder.
func parseSlots(words [5]string) (Funnel, Error) {
	limit, isLimit := Integer(0, words[1])
	ttl, isTTL := Seconds(words[3])
	holder := words[4]
	switch {
	case !isLimit:
		return Funnel{}, ErrLimit
	case !isTTL || less(ttl, big.NewInt(1e6)):
		return Funnel{}, ErrTTL
	case len(holder) < 1 || len(holder) > 255:
		return Funnel{}, ErrHolder
	}
	return Funnel{Key: words[0], Limit: limit, Quantity: big.NewInt(1), Slots: &Slots{holder: holder, ttl: ttl}}, ""
}

// endOf is when a slot of that score ends, rounded up, from 0 to 2^63-1.
func endOf(score float64) int64 {
	if score >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(max(0, score)))
}

// until is the time until an end, from 0 to 2^63-1 nanoseconds.
func until(end int64, now *big.Int) int64 {
	span := sub(mul(big.NewInt(end), big.NewInt(1e6)), now)
	return in63Bits(smallest(largest(span, zero), most))
}

// stored takes the set that a key holds. It returns when the holder's own slot ends, or 0.
func (s *Slots) stored(value Value, now *big.Int) (own *big.Int, err Error) {
	if value.Type != "zset" && value.Type != "" {
		return nil, ErrType
	}
	s.scores, s.ends = value.Scores, map[string]int64{}
	for member, score := range value.Scores {
		if end := endOf(score); end > now.Int64()/1e6 {
			s.ends[member] = end
		}
	}
	return big.NewInt(s.ends[s.holder]), ""
}

// decide is the arithmetic of the commands. The TAT of the Decision is when the holder's own slot
// ends, or 0.
func (s *Slots) decide(operation string, limit, now *big.Int) (Decision, Error) {
	decision, after := Decision{Limit: limit.Int64()}, maps.Clone(s.ends)
	switch {
	case operation == "refund":
		delete(after, s.holder)
	case operation == "charge" || s.ends[s.holder] > 0 || int64(len(s.ends)) < limit.Int64():
		end := add(now, s.ttl)
		if !fits(end) {
			return Decision{}, ErrEnd
		}
		after[s.holder] = roundedUp(end, 1e6)
		decision.Limited = operation == "charge" && int64(len(after)) > limit.Int64()
	default:
		decision.Limited = true
	}
	if operation == "peek" {
		after = s.ends
	}
	ends := slices.Sorted(maps.Values(after))
	if len(ends) > 0 {
		decision.ResetAfter = until(ends[len(ends)-1], now)
	}
	if decision.Limited && operation != "charge" && limit.Sign() == 0 {
		decision.Wait = -1
	} else if decision.Limited {
		decision.Wait = until(ends[0], now)
	}
	decision.Remaining, decision.TAT = max(0, limit.Int64()-int64(len(ends))), after[s.holder]
	return decision, ""
}

// write is what becomes of the set when the holder's own slot ends then, or has ended: up to 1,000
// slots that have ended go, and the key expires with the last end.
func (s *Slots) write(key string, end int64) Write {
	left := map[string]float64{}
	maps.Copy(left, s.scores)
	delete(left, s.holder)
	ended := slices.SortedFunc(maps.Keys(left), func(a, b string) int {
		return cmp.Or(cmp.Compare(left[a], left[b]), cmp.Compare(a, b))
	})
	ended = slices.DeleteFunc(ended, func(member string) bool { return s.ends[member] > 0 })
	for _, member := range ended[:min(len(ended), 1000)] {
		delete(left, member)
	}
	write := Write{Key: key, Holder: s.holder, Left: left}
	if end > 0 {
		write.Value, left[s.holder] = strconv.FormatInt(end, 10), float64(end)
	}
	for _, score := range left {
		write.Expiry = max(write.Expiry, endOf(score))
	}
	if write.Expiry == math.MaxInt64 {
		write.Expiry = NoExpiry
	}
	return write
}
