package throttle

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/contract"
)

var commandNames = map[string]gcra.Operation{"reserve": gcra.Reserve, "peek": gcra.Peek, "charge": gcra.Charge, "refund": gcra.Refund}

// funnelsCallOf is a call as C makes it, of words behind the name of the command: what Go
// fills in holds whatever was there before. Get reads a key.
func funnelsCallOf(command string, words []string, now int64, get func(key string) contract.Value) *FunnelsCall {
	call := &FunnelsCall{Command: commandNames[command], Length: uint32(len(words) / 5), Now: now, LongestWait: 77, Outcome: usedOutcome(),
		Writes: 77, Limited: 77, Wait: used()}
	if len(words)%5 == 1 {
		call.MaxWait = words[len(words)-1]
		if call.MaxWait == "" { // of the server's, which has bytes
			call.MaxWait = "x"[:0]
		}
	}
	for i := range call.Length {
		funnel := words[5*i:]
		call.Funnels[i] = Funnel{Key: funnel[0], Capacity: funnel[1], Count: funnel[2], Period: funnel[3], Quantity: funnel[4],
			Write: 77, TAT: used(), Expiry: used()}
		call.Rows[i] = Row{Limited: 77, Limit: 77, Remaining: 77, Wait: used(), ResetAfter: used()}
		call.Asks[i].Decision.Wait = 77
		if value := get(funnel[0]); value.Type != "" {
			call.Funnels[i].Stored, call.Funnels[i].StoredValue = StoredString, value.Text
		}
	}
	return call
}

func answerFunnels(call *FunnelsCall) {
	if parseFunnels(call); call.Outcome.Verdict == Parsed {
		decideFunnels(call)
	}
}

// outcomeOf is the call in the words of the contract.
func outcomeOf(t testing.TB, call *FunnelsCall) contract.Outcome {
	if call.Outcome.Verdict == Error {
		return contract.Outcome{Err: contract.Error(call.Outcome.text(t))}
	}
	var outcome contract.Outcome
	rows := make([]any, call.Length)
	for i := range call.Length {
		row, funnel := &call.Rows[i], &call.Funnels[i]
		rows[i] = []any{row.Limited, row.Limit, row.Remaining, row.Wait.text(), row.ResetAfter.text()}
		outcome.Writes = writesOf(t, outcome.Writes, funnel)
	}
	require.Len(t, outcome.Writes, int(call.Writes))
	outcome.Reply = []any{call.Limited, call.Wait.text(), rows}
	return outcome
}

// TestVerdictsOfFunnels are what INFO counts.
func TestVerdictsOfFunnels(t *testing.T) {
	full := func(string) contract.Value {
		return contract.Value{Type: "string", Text: strconv.FormatInt(today+1e9, 10)}
	}
	none := func(string) contract.Value { return contract.Value{} }
	for _, c := range []struct {
		words   string
		get     func(string) contract.Value
		verdict uint32
	}{
		{"reserve a 1 1 1 1", none, Allowed}, {"reserve a 1 1 1 1", full, Limited}, {"reserve a 1 1 1 1 1", full, Allowed},
		{"reserve a 1 1 1 0", full, Peeked}, {"reserve a 1 1 1 0 b 1 1 1 1", none, Allowed},
		{"peek a 1 1 1 1", none, Peeked}, {"peek a 1 1 1 2", none, Peeked},
		{"charge a 1 1 1 9", full, Charged}, {"charge a 1 1 1 0", full, Peeked},
		{"refund a 1 1 1 1", none, Refunded}, {"refund a 1 1 1 0", none, Peeked},
	} {
		words := strings.Fields(c.words)
		call := funnelsCallOf(words[0], words[1:], today, c.get)
		answerFunnels(call)
		require.Equal(t, c.verdict, call.Outcome.Verdict, c.words)
	}
}

func TestErrorMessagesOfFunnels(t *testing.T) {
	sixtyFour := make([]string, 64)
	for i := range sixtyFour {
		sixtyFour[i] = fmt.Sprintf("k%d 1 1 1 1", i)
	}
	for words, want := range map[string]string{
		"reserve a 1 1 1 1 x":                "ERR max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits, not 'x'",
		"reserve a 1 1 1 1 b 1 1 1 1 0.5":    "ERR max_wait must be 0 for several funnels: ask again after the wait that a limited call replies, not '0.5'",
		"peek a 1 1 1 1 b 1 1 1 1 a 1 1 1 1": "ERR funnel 3: the key is named twice in this call: ask once, for all of its tokens",
		"charge a 1 1 1 1 b 1 2 x 1":         "ERR funnel 2: period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits, not 'x'",
		"charge a 0 1 1 1 b 1 2 x 1":         "ERR funnel 1: capacity must be an integer from 1 to 9223372036854775807, not '0': for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'",
		"peek a x 1 1 1":                     "ERR capacity must be an integer from 1 to 9223372036854775807, not 'x'",
		"charge " + strings.Join(append(sixtyFour[:9:9], "a 1 x 1 1"), " "):    "ERR funnel 10: count must be an integer from 1 to 9223372036854775807, not 'x'",
		"refund " + strings.Join(append(sixtyFour[:63:63], "a 1 1 1 -1"), " "): "ERR funnel 64: quantity must be an integer from 0 to 9223372036854775807, not '-1'",
	} {
		words := strings.Fields(words)
		call := funnelsCallOf(words[0], words[1:], today, func(string) contract.Value { return contract.Value{} })
		answerFunnels(call)
		require.Equal(t, want, call.Outcome.text(t))
	}

	call := funnelsCallOf("peek", strings.Fields("a 1 1 1 1 b 1 1 1 1"), today, func(string) contract.Value { return contract.Value{} })
	call.Funnels[1].Stored = StoredOtherType
	answerFunnels(call)
	require.Equal(t, wrongType, call.Outcome.text(t))
}

// FuzzFunnels: two funnels answer what the contract says, in all commands, and nothing is
// allocated on the way.
func FuzzFunnels(f *testing.F) {
	f.Add("a", "15", "30", "60", "1", "1795236055976124882", "b", "1", "1", "1", "1", "", "0", today)
	f.Add("a", "1", "1", "1", "9", "1795236058976124882", "", "1", "1", "1", "1", "x", "2.5", today)
	f.Add("a", "1", "1", "1", "1", "1795236056976124882", "a", "1", "1", "1", "1", "x", "9223372036.854775807", int64(0))
	f.Fuzz(func(t *testing.T, key1, capacity1, count1, period1, quantity1, value1, key2, capacity2, count2, period2, quantity2, value2, maxWait string, now int64) {
		if now < 0 {
			t.Skip() // the contract has no numbers below 0
		}
		get := func(key string) contract.Value {
			value := map[string]string{key2: value2, key1: value1}[key]
			if value == "" {
				return contract.Value{}
			}
			return contract.Value{Type: "string", Text: value}
		}
		one := []string{key1, capacity1, count1, period1, quantity1}
		two := append(one[:5:5], key2, capacity2, count2, period2, quantity2)
		for command := range commandNames {
			for _, words := range [][]string{one, two, append(one[:5:5], maxWait), append(two[:10:10], maxWait)} {
				if len(words)%5 == 1 && command != "reserve" {
					continue
				}
				call := funnelsCallOf(command, words, now, get)
				require.Zero(t, testing.AllocsPerRun(1, func() { answerFunnels(call) }))
				got, want := outcomeOf(t, call), contract.Funnels(command, contract.Default, words, now, get)
				require.True(t, strings.HasPrefix(string(got.Err), string(want.Err)) && (got.Err == "") == (want.Err == ""), "%s of %q: %q, want %q", command, words, got.Err, want.Err)
				require.Equal(t, want.Reply, got.Reply, "%s of %q", command, words)
				require.Equal(t, want.Writes, got.Writes, "%s of %q", command, words)
			}
		}
	})
}
