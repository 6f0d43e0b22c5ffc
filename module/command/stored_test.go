// What the keys of a call hold, as C reads it.

package command

import (
	"math"

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
