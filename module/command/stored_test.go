// What the keys of a call hold, as C reads it and as the fuzzer makes it up.

package command

import (
	"math"
	"strconv"
	"strings"

	"funnel/internal/call"
	"funnel/internal/contract"
	"funnel/slots"
)

// store lets the keys of a call that was parsed hold values, as C reads them.
func (c *Call) store(get func(key string) contract.Value) {
	for i := range c.Length {
		row := &c.Rows[i]
		switch value := get(row.Words[0]); {
		case value.Type == "":
			row.Stored, row.Slots.State = StoredNothing, slots.State{}
		case value.Type == "string" && row.Kind != call.Slots:
			row.Stored, row.String.Stored, row.String.StoredExpiry = StoredOfKind, value.Text, value.Expiry
		case value.Type == "zset" && row.Kind == call.Slots:
			row.Stored, row.Slots.State = StoredOfKind, stateOf(value.Scores, row, c.Now/1e6)
		default:
			row.Stored = StoredOtherType
		}
	}
}

// stateOf is what C reads of a set, at an instant in milliseconds.
func stateOf(scores map[string]float64, row *Row, now int64) (state slots.State) {
	for member, score := range scores {
		end := int64(math.MaxInt64)
		if score < 0x1p63 {
			end = int64(max(0, math.Ceil(score)))
		}
		if score <= float64(now) {
			continue
		}
		state.Running++
		if member == row.Words[holderWord] {
			state.Own = end
			continue
		}
		if state.First == 0 || end < state.First {
			state.First = end
		}
		state.Last = max(state.Last, end)
	}
	if state.Running > row.Slots.Limit {
		state.Running = row.Slots.Limit + 1
	}
	return state
}

// ends is an end so many milliseconds ahead of today.
func ends(ahead int64) string { return strconv.FormatInt(today/1e6+ahead, 10) }

// scoresIn reads a set of the form "member=score member=score".
func scoresIn(text string) map[string]float64 {
	scores := map[string]float64{}
	for _, word := range strings.Fields(text) {
		member, score, _ := strings.Cut(word, "=")
		if number, err := strconv.ParseFloat(score, 64); err == nil && !math.IsNaN(number) {
			scores[member] = number
		}
	}
	return scores
}

// expiries are when keys expire, if the instant of the call is today: in the past, just now, in a millisecond, ...
var expiries = []int64{contract.NoExpiry, today/1e6 - 1, today / 1e6, today/1e6 + 1, today/1e6 + 20_000, today/1e6 + 20_001,
	today/1e6 + 31_000, math.MaxInt64}

// held is what a key holds: kind says of which type, and when it expires.
func held(kind uint8, text string, now int64) contract.Value {
	expiry := expiries[int(kind/4)%len(expiries)]
	if expiry > 0 && expiry != math.MaxInt64 {
		expiry = max(1, expiry-today/1e6+max(now, 0)/1e6)
	}
	return []contract.Value{
		{}, {Type: "string", Text: text, Expiry: expiry}, {Type: "list"},
		{Type: "zset", Scores: scoresIn(text)},
	}[kind%4]
}
