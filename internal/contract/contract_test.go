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

// text is the value of a string, and set of a sorted set.
func text(value string) contract.Value { return contract.Value{Type: "string", Text: value} }
func set(scores map[string]float64) contract.Value {
	return contract.Value{Type: "zset", Scores: scores}
}

func TestOneCallAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		got  contract.Outcome
		want contract.Outcome
	}{
		"the first call of the README": {
			run(nil, "cl.throttle", "k", "15", "30", "60"),
			contract.Outcome{Name: contract.Allowed, Reply: []any{int64(0), int64(15), int64(14), int64(-1), int64(2)},
				Writes: []contract.Write{{Key: "k", Value: text("4102444802000000000"), Expiry: 4_102_444_802_000}}},
		},
		"a slot and a token are taken together": {
			run(map[string]contract.Value{"s": set(map[string]float64{"a": 4_102_444_805_000, "gone": 5})},
				"cl.reserve", "s", "2", "SLOTS", "30", "h", "k", "10", "1", "1", "1"),
			contract.Outcome{Name: contract.Allowed, Reply: []any{int64(0), "0", []any{
				[]any{int64(0), int64(2), int64(0), "0", "30", "0"},
				[]any{int64(0), int64(10), int64(9), "0", "1", "4102444801000000000"},
			}}, Writes: []contract.Write{
				{Key: "s", Value: set(map[string]float64{"a": 4_102_444_805_000, "h": 4_102_444_830_000}),
					Expiry: 4_102_444_830_000},
				{Key: "k", Value: text("4102444801000000000"), Expiry: 4_102_444_801_000},
			}},
		},
		"the last slot is given back": {
			run(map[string]contract.Value{"s": set(map[string]float64{"h": 4_102_444_805_000.5})},
				"cl.refund", "s", "1", "SLOTS", "30", "h"),
			contract.Outcome{Name: contract.Refunded, Reply: []any{int64(0), "0",
				[]any{[]any{int64(0), int64(1), int64(1), "0", "0", "5.001"}}}, Writes: []contract.Write{{Key: "s"}}},
		},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}
