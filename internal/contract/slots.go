package contract

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Slots are a row of slots: what is asked, and the set as it is stored. Ends are in milliseconds.
type Slots struct {
	Holder string
	TTL    *big.Int // nanoseconds

	scores map[string]float64 // of all members
	ends   map[string]int64   // of those that run
}

// parseSlots reads key, limit, SLOTS, ttl and holder.
func parseSlots(words [5]string) (Funnel, Error) {
	limit, ok := Integer(0, words[1])
	if !ok {
		return Funnel{}, ErrLimit
	}
	ttl, ok := Seconds(words[3])
	if !ok || ttl.Cmp(big.NewInt(1e6)) < 0 {
		return Funnel{}, ErrTTL
	}
	if len(words[4]) < 1 || len(words[4]) > 255 {
		return Funnel{}, ErrHolder
	}
	return Funnel{Key: words[0], Limit: limit, Quantity: big.NewInt(1), Slots: &Slots{Holder: words[4], TTL: ttl}}, ""
}

// isSlots says whether the third word makes a row one of slots.
func isSlots(words [5]string) bool { return strings.EqualFold(words[2], "slots") && len(words[2]) == 5 }

// endOf is when a slot of that score ends, rounded up, from 0 to 2^63-1.
func endOf(score float64) int64 {
	if score >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(max(0, score)))
}

// stored takes the set that a key holds. It returns when the holder's own slot ends, or 0.
func (s *Slots) stored(value Value, now *big.Int) (own *big.Int, err Error) {
	if value.Type != "zset" && value.Type != "" && value.Type != "none" {
		return nil, ErrType
	}
	s.scores, s.ends = value.Scores, map[string]int64{}
	for member, score := range value.Scores {
		if end := endOf(score); end > now.Int64()/1e6 {
			s.ends[member] = end
		}
	}
	return big.NewInt(s.ends[s.Holder]), ""
}

// decide is the arithmetic of the commands. The TAT of the Decision is when the holder's own slot
// ends, or 0.
func (s *Slots) decide(operation string, limit, now *big.Int) (Decision, Error) {
	after, limited := maps.Clone(s.ends), false
	switch {
	case operation == "refund":
		delete(after, s.Holder)
	case operation == "charge" || s.ends[s.Holder] > 0 || int64(len(s.ends)) < limit.Int64():
		end := new(big.Int).Add(now, s.TTL)
		if !fits(end) {
			return Decision{}, ErrEnd
		}
		after[s.Holder] = roundedUp(end, 1e6)
		limited = operation == "charge" && int64(len(after)) > limit.Int64()
	default:
		limited = true
	}
	if operation == "peek" {
		after = s.ends
	}
	wait := new(big.Int)
	if limited && operation != "charge" && limit.Sign() == 0 {
		wait.SetInt64(-1)
	} else if limited {
		wait = until(slices.Min(slices.Collect(maps.Values(after))), now)
	}
	return s.state(after, limit, now, limited, wait), ""
}

// state is a decision whose last numbers follow from the slots that run after the call.
func (s *Slots) state(after map[string]int64, limit, now *big.Int, limited bool, wait *big.Int) Decision {
	return Decision{
		Limited:    limited,
		Limit:      in63Bits(limit),
		Remaining:  max(0, in63Bits(limit)-int64(len(after))),
		Wait:       in63Bits(wait),
		ResetAfter: in63Bits(until(slices.Max(append(slices.Collect(maps.Values(after)), 0)), now)),
		TAT:        after[s.Holder],
	}
}

// until is the time until an end, at least 0 and at most 2^63-1.
func until(end int64, now *big.Int) *big.Int {
	span := new(big.Int).Mul(big.NewInt(end), big.NewInt(1e6))
	if span.Sub(span, now); !fits(span) {
		return most
	}
	return larger(span, new(big.Int))
}

// write is what becomes of the set when the holder's own slot ends then, or has ended: up to 1,000
// slots that have ended go, and the key expires with the last end.
func (s *Slots) write(key string, end int64) Write {
	left, last := map[string]float64{}, int64(0)
	maps.Copy(left, s.scores)
	delete(left, s.Holder)
	ended := slices.SortedFunc(maps.Keys(left), func(a, b string) int {
		return cmp.Or(cmp.Compare(left[a], left[b]), cmp.Compare(a, b))
	})
	ended = slices.DeleteFunc(ended, func(member string) bool { return s.ends[member] > 0 })
	ended = ended[:min(len(ended), 1000)]
	for _, member := range ended {
		delete(left, member)
	}
	write := Write{Key: key, Holder: s.Holder, Removed: len(ended), Left: left, Expiry: NoExpiry}
	if end > 0 {
		write.Value, left[s.Holder] = strconv.FormatInt(end, 10), float64(end)
	}
	for _, score := range left {
		last = max(last, endOf(score))
	}
	if last < math.MaxInt64 {
		write.Expiry = last
	}
	return write
}
