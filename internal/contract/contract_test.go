// The contract says what docs/commands.md says, in calls that were worked out by hand. test/command has many more
// of them, which servers execute, too.

package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

// now is the beginning of 2100, in nanoseconds.
const now = 4_102_444_800_000_000_000

// run executes a command on keys that hold these values.
func run(held map[string]contract.Value, words ...string) contract.Outcome {
	return contract.Run(contract.Default, words, now, func(key string) contract.Value { return held[key] })
}

// text is a string, and set a sorted set, that expires in that millisecond.
func text(value string, expiry int64) contract.Value {
	return contract.Value{Type: "string", Text: value, Expiry: expiry}
}
func set(scores map[string]float64, expiry int64) contract.Value {
	return contract.Value{Type: "zset", Scores: scores, Expiry: expiry}
}

func TestOneCallAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		got  contract.Outcome
		want contract.Outcome
	}{
		"the first call of the README": {
			run(nil, "cl.throttle", "k", "15", "30", "60"),
			contract.Outcome{Name: contract.Allowed, Reply: []any{int64(0), int64(15), int64(14), int64(-1), int64(2)},
				Writes: []contract.Write{{Key: "k", Value: text("4102444802000000000", 4_102_444_802_000)}}},
		},
		"a slot and a token are taken together": {
			run(map[string]contract.Value{"s": set(map[string]float64{"a": 4_102_444_805_000, "gone": 5}, 4_102_444_805_000)},
				"cl.reserve", "s", "2", "SLOTS", "30", "h", "k", "10", "1", "1", "1"),
			contract.Outcome{Name: contract.Allowed, Reply: []any{int64(0), "0", []any{
				[]any{int64(0), int64(2), int64(0), "0", "30", "0"},
				[]any{int64(0), int64(10), int64(9), "0", "1", "4102444801000000000"},
			}}, Writes: []contract.Write{
				{Key: "s", Value: set(map[string]float64{"a": 4_102_444_805_000, "h": 4_102_444_830_000}, 4_102_444_830_000)},
				{Key: "k", Value: text("4102444801000000000", 4_102_444_801_000)},
			}},
		},
		"the last slot is given back": {
			run(map[string]contract.Value{"s": set(map[string]float64{"h": 4_102_444_805_000.5}, 4_102_444_805_001)},
				"cl.refund", "s", "1", "SLOTS", "30", "h"),
			contract.Outcome{Name: contract.Refunded, Reply: []any{int64(0), "0",
				[]any{[]any{int64(0), int64(1), int64(1), "0", "0", "5.001"}}}, Writes: []contract.Write{{Key: "s"}}},
		},
		"a caller whose clock is ahead is counted in the period that runs": {
			run(map[string]contract.Value{"m": text("used:7", 4_102_444_860_000)},
				"cl.take", "m", "10", "UNTIL", "9000000000.5", "4"),
			contract.Outcome{Name: contract.Partly, Reply: []any{int64(1), "60", []any{
				[]any{int64(1), int64(10), int64(0), "60", "60", "4102444860"}}, int64(3)},
				Writes: []contract.Write{{Key: "m", Value: text("used:10", 4_102_444_860_000)}}},
		},
		"a limited call cuts periods, even of a row that would have allowed it": {
			run(map[string]contract.Value{"m": text("used:7", 0), "n": text("used:7", 9_000_000_000_000)},
				"cl.reserve", "m", "7", "UNTIL", "4102444800.0001", "1", "n", "8", "UNTIL", "4102444801", "1"),
			contract.Outcome{Name: contract.Limited, Reply: []any{int64(1), "0.0001", []any{
				[]any{int64(1), int64(7), int64(0), "0.0001", "0.0001", "0"},
				[]any{int64(0), int64(8), int64(1), "0", "1", "0"},
			}}, Writes: []contract.Write{
				{Key: "m", Value: text("used:7", 4_102_444_800_001)}, {Key: "n", Value: text("used:7", 4_102_444_801_000)},
			}},
		},
		"a charge of a period that has ended": {
			run(nil, "cl.charge", "k", "1", "1", "1", "1", "m", "7", "UNTIL", "4102444800", "1"),
			contract.Outcome{Name: string(contract.ErrEnded), Err: "ENDED row 2: until must be later than the server's clock: " +
				"got 4102444800, and it is 4102444800"},
		},
		"a refund of a period that has ended changes nothing": {
			run(map[string]contract.Value{"m": text("used:7", 4_102_444_860_000)},
				"cl.refund", "m", "9", "UNTIL", "4102444800", "5"),
			contract.Outcome{Name: contract.Refunded, Reply: []any{int64(0), "0",
				[]any{[]any{int64(0), int64(9), int64(2), "0", "60", "0"}}}},
		},
		"a refund leaves the end of a longer period": {
			run(map[string]contract.Value{"m": text("used:7", 4_102_444_860_000)},
				"cl.refund", "m", "9", "UNTIL", "4102444830", "5"),
			contract.Outcome{Name: contract.Refunded, Reply: []any{int64(0), "0",
				[]any{[]any{int64(0), int64(9), int64(7), "0", "30", "0"}}},
				Writes: []contract.Write{{Key: "m", Value: text("used:2", 4_102_444_860_000)}}},
		},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}
