// A call is answered as the contract says, and an error names what is wrong in one printable line.

package answer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	decided "funnel/internal/call"
	"funnel/internal/contract"
)

const (
	today int64 = 1795236055976124882 // an instant in 2026
	most        = "9223372036854775807"
)

var operations = map[string]decided.Operation{"reserve": decided.Reserve, "take": decided.Take, "peek": decided.Peek, "charge": decided.Charge, "refund": decided.Refund}

// callOf is a call as C makes it, of the words of a command: what Go fills in holds
// whatever was there before.
func callOf(mode contract.Mode, words []string, now int64) *Call {
	command, _ := contract.CommandOf(words[0])
	operation, known := operations[command.Operation]
	if !known {
		panic("unknown operation: " + command.Operation)
	}
	words = words[1:]
	call := &Call{Operation: operation, Form: InRows, Length: uint32(max(1, len(words)/5)), Now: now,
		MaxWait: 77, Receipt: 77, Verdict: 77, ErrorFunnel: 77, MessageLength: 77, Writes: 77,
		Seconds: [SecondsLength]int64{77, 77, 77, 77, 77}, Limited: 77, Taken: 77, Wait: used()}
	if command.Seconds {
		call.Form, call.LimitSurplus = InSeconds, int64(mode)
	}
	for i := range call.Message {
		call.Message[i] = 'x'
	}
	if len(words)%5 == 1 {
		call.LastWord = words[len(words)-1]
		if call.LastWord == "" { // of the server's, which has bytes
			call.LastWord = "x"[:0]
		}
	}
	for i := range call.Length {
		item, funnel := &call.Items[i], &call.Funnels[i]
		item.Funnel.TAT, item.Funnel.Decision.Wait, item.Funnel.Taken = 77, 77, 77
		call.Rows[i] = Row{Limited: 77, Limit: 77, Remaining: 77, Wait: used(), ResetAfter: used(), HasReceipt: 77}
		word := append(slices.Clone(words[5*i:]), "1")
		*funnel = Funnel{Key: word[0], Capacity: word[1], Count: word[2], Period: word[3], Quantity: word[4],
			ComparedWith: 77, Alike: 77, Kind: 77, Write: 77, TAT: used(), Expiry: used(), Slots: Slots{Limit: 77}}
	}
	return call
}

// store has the keys of a call that was parsed hold values, as C reads them.
func (call *Call) store(get func(key string) contract.Value) {
	for i := range call.Length {
		funnel := &call.Funnels[i]
		switch value := get(funnel.Key); {
		case value.Type == "":
			funnel.Stored, funnel.Slots = StoredNothing, Slots{Limit: funnel.Slots.Limit}
		case value.Type == "string" && funnel.Kind == FunnelKind:
			funnel.Stored, funnel.StoredValue = StoredOfKind, value.Text
		case value.Type == "zset" && funnel.Kind == SlotsKind:
			funnel.Stored, funnel.Slots = StoredOfKind, slotsOf(value.Scores, funnel, call.Now/1e6)
		default:
			funnel.Stored = StoredOtherType
		}
	}
}

// slotsOf is what C reads of a set, at an instant in milliseconds.
func slotsOf(scores map[string]float64, funnel *Funnel, now int64) Slots {
	slots := Slots{Limit: funnel.Slots.Limit}
	for member, score := range scores {
		end := int64(math.MaxInt64)
		if score < 0x1p63 {
			end = int64(max(0, math.Ceil(score)))
		}
		if score <= float64(now) {
			continue
		}
		slots.Running++
		if member == funnel.Quantity {
			slots.Own = end
			continue
		}
		if slots.First == 0 || end < slots.First {
			slots.First = end
		}
		slots.Last = max(slots.Last, end)
	}
	if slots.Running > slots.Limit {
		slots.Running = slots.Limit + 1
	}
	return slots
}

// answer makes the two crossings of a command. Get reads a key.
func answer(call *Call, get func(key string) contract.Value) {
	if parse(call); call.Verdict == Parsed {
		call.store(get)
		decide(call)
	}
}

func errorOf(t testing.TB, call *Call) string {
	require.Equal(t, Error, call.Verdict)
	text, _, terminated := strings.Cut(string(call.Message[:]), "\x00")
	require.True(t, terminated)
	return text
}

func (decimal *Decimal) text() string { return string(decimal.Bytes[decimal.Start:decimal.End]) }

// replyOf and writesOf are the answer, in the words of the contract.
func replyOf(call *Call) (reply []any) {
	if call.Form == InSeconds {
		for _, number := range call.Seconds {
			reply = append(reply, number)
		}
		return reply
	}
	rows := make([]any, call.Length)
	for i := range rows {
		row, receipt := &call.Rows[i], fmt.Sprint(call.Rows[i].HasReceipt) // 0 for none
		if row.HasReceipt == 1 {
			receipt = call.Funnels[i].TAT.text()
		}
		rows[i] = []any{row.Limited, row.Limit, row.Remaining, row.Wait.text(), row.ResetAfter.text(), receipt}
	}
	reply = []any{call.Limited, call.Wait.text(), rows}
	if call.Operation == decided.Take {
		reply = append(reply, call.Taken)
	}
	return reply
}

func writesOf(t testing.TB, call *Call) (writes []contract.Write) {
	for i := range call.Length {
		funnel := &call.Funnels[i]
		if funnel.Write == WriteNothing {
			continue
		}
		write := contract.Write{Key: funnel.Key}
		if funnel.Kind == SlotsKind {
			write.Holder = funnel.Quantity
		}
		if funnel.Write == WriteTAT {
			require.Equal(t, strconv.FormatInt(funnel.ExpiryMilliseconds, 10), funnel.Expiry.text())
			if write.Value, write.Expiry = funnel.TAT.text(), funnel.ExpiryMilliseconds; funnel.Kind == SlotsKind {
				write.Value, write.Expiry = funnel.Expiry.text(), 0
			}
		} else {
			require.Equal(t, WriteDeletion, funnel.Write)
		}
		writes = append(writes, write)
	}
	require.Len(t, writes, int(call.Writes))
	return writes
}

// verdicts are what INFO counts the outcomes of the contract as.
var verdicts = map[string]uint32{
	contract.Allowed: Allowed, contract.Later: Allowed, contract.Partly: Allowed, contract.Limited: Limited, contract.Never: Limited,
	contract.Peeked: Peeked, contract.Charged: Charged, contract.Refunded: Refunded,
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

// FuzzAnswer: whatever the words and the keys, the answer of each command is what the
// contract says, an error is one printable line that fits its buffer, and nothing is
// allocated on the way. Kinds say what the two keys hold.
func FuzzAnswer(f *testing.F) {
	in := func(ahead int64) string { return strconv.FormatInt(today+ahead, 10) }
	for _, c := range []struct {
		words     string // of one funnel
		kind      uint8
		value     string
		redisCell bool
	}{
		{"15 30 60 1", 0, "", false}, {"15 30 60 1", 1, in(0), false}, {"15 30 60 1", 1, in(10e9), false}, {"15 30 60 1", 1, in(28e9), false}, {"15 30 60 1", 1, in(28e9 + 1), false},
		{"15 30 60 1", 1, in(30e9), false},
		{"15 30 60 " + most, 0, "", false}, {"15 30 60 " + most, 1, in(28e9), false}, {"15 30 60 " + most, 1, in(28e9 + 1), false}, {"15 30 60 4", 1, in(25e9), false},
		{"15 30 60 16", 1, in(30e9), false}, {"15 30 60 0", 1, in(10e9), false}, {"15 30 60 0", 1, in(40e9), false},
		{"1 1 0.000000001 1", 0, "", false}, {"1 1 9223372036 1", 0, "", false}, {"1 1 1 1", 1, most, false},
		{"0 1 1 1", 0, "", true}, {"0 1 1 1", 0, "", false}, {"9223372036854775806 1 0.000000001 1", 0, "", true}, {most + " 1 0.000000001 1", 0, "", true}, {most + " 2 0.000000001 1", 0, "", true},
		{"15 30 60 1", 1, "-1", false}, {"15 30 60 1", 1, "9223372036854775808", false}, {"15 30 60 1", 1, "", false}, {"15 30 60 1", 1, "01", false},
		// Errors come in this order.
		{"x x x x", 2, "", false}, {"x x x x", 2, "", true}, {"1 x x x", 2, "", false}, {"1 1 x x", 2, "", false}, {"1 1 1 x", 2, "", false},
		{most + " " + most + " 1 " + most, 2, "", false}, {most + " 1 1 " + most, 2, "", false}, {"1 1 1 " + most, 2, "", false}, {"1 1 1 1", 2, "", false},
		{most + " " + most + " 9223372036.854775807 " + most, 1, "0", false}, {"1 1 1 " + strings.Repeat("\xff", 100), 0, "", false},
	} {
		words := strings.Split(c.words, " ")
		for key, lastWord := range map[string]string{"a": "0", "b": "2.5", "": most} {
			f.Add(words[0], words[1], words[2], words[3], c.kind, c.value, key, "1", "1", "1", "1", c.kind/2, in(1e9), lastWord, today, c.redisCell)
		}
		f.Add(words[0], words[1], words[2], words[3], c.kind, c.value, "b", words[0], "30", "60", "1", c.kind, "0", "x", int64(-1), c.redisCell)
	}
	// Stored values are read from the left: the first holds a word, the second is a list.
	f.Add("15", "30", "60", "1", uint8(1), "abc", "b", "1", "1", "1", "1", uint8(2), "", "0", today, false)
	// The second funnel limits the first, which has tokens in it.
	f.Add("15", "30", "60", "1", uint8(1), in(10e9), "b", "1", "1", "1", "1", uint8(1), in(1e9), "0", today, false)
	// The last word is a receipt, which may have passed, and the funnel may have more since.
	for _, receipt := range []string{in(-1), in(0), in(1), in(5e9), in(10e9), in(14e9 + 1), most, most + "0", "01"} {
		f.Add("15", "30", "60", "7", uint8(1), in(10e9), "b", "1", "1", "1", "1", uint8(0), "", receipt, today, false)
		f.Add("15", "30", "60", "20", uint8(1), in(40e9), "b", "1", "1", "1", "1", uint8(0), "", receipt, int64(-1), false)
	}
	// Slots: free, taken by the holder or by others, more than the limit, ended just now; then errors.
	for _, set := range []string{"", "h=" + ends(1), "x=" + ends(1), "h=" + ends(0), "x=" + ends(0), "h=" + ends(30_000), "h=+Inf", "x=-Inf", "x=" + ends(1) + "5 y=+Inf",
		"h=" + ends(1) + " x=" + ends(2), "x=" + ends(40_000) + " y=9e15 z=1", "h=9300000000000"} {
		for _, limit := range []string{"0", "1", "2", most} {
			f.Add(limit, "SLOTS", "30", "h", uint8(3), set, "b", "1", "1", "1", "1", uint8(1), in(1e9), "0", today, false)
			f.Add(limit, "SLOTS", "30", "h", uint8(3), set, "b", "1", "sLoTs", "0.001", "h", uint8(0), "", "0", today, false)
			f.Add("1", "1", "1", "1", uint8(1), in(0), "b", limit, "SLOTS", "30", "h", uint8(3), set, "5", today, false)
		}
	}
	for _, words := range []string{"x SLOTS x ", "-1 SLOTS 1 h", "1 SLOTS 0.0009 h", "1 SLOTS 0.001 h", "1 SLOTS 1 ", "1 SLOTS 9223372036.854775807 h", "1 SLOT 1 1", "1 SLOTSS 1 1"} {
		word := strings.Split(words, " ")
		for kind := range uint8(4) {
			f.Add(word[0], word[1], word[2], word[3], kind, "h=1", "b", "1", "1", "1", "1", kind, in(0), "7", today, false)
		}
	}
	f.Add("1", "SLOTS", "1", strings.Repeat("h", 255), uint8(0), "", "b", "1", "SLOTS", "1", strings.Repeat("h", 256), uint8(0), "", "0", int64(-1), false)
	// Instants before 1970 count as 0, also for a refund that empties a funnel.
	f.Add("1", "1", "1", "0", uint8(0), "", "0", "1", "1", "1", "1", uint8(1), "1", "0", int64(-1), false)
	f.Fuzz(func(t *testing.T, capacity, count, period, quantity string, kind uint8, value, key, capacity2, count2, period2, quantity2 string, kind2 uint8, value2, lastWord string, now int64, redisCell bool) {
		held := func(kind uint8, text string) contract.Value {
			return []contract.Value{{}, {Type: "string", Text: text}, {Type: "list"}, {Type: "zset", Scores: scoresIn(text)}}[kind%4]
		}
		get := func(name string) contract.Value {
			if name == "a" {
				return held(kind, value)
			}
			return held(kind2, value2)
		}
		mode := contract.Default
		if redisCell {
			mode = contract.RedisCell
		}
		one := []string{"a", capacity, count, period, quantity}
		two := append(one[:5:5], key, capacity2, count2, period2, quantity2)
		var calls [][]string
		for _, command := range contract.Commands {
			for _, words := range [][]string{one[:4], one, two, append(one[:5:5], lastWord), append(two[:10:10], lastWord)} {
				call := append([]string{command.Name}, words...)
				if len(call) >= command.LeastWords && len(words)/5 <= command.Funnels && (len(words)%5 != 1 || command.LastWord != "") {
					calls = append(calls, call)
				}
			}
		}
		for _, words := range calls {
			call := callOf(mode, words, now)
			answer(call, get)
			require.Zero(t, testing.AllocsPerRun(1, func() {
				if parse(call); call.Verdict == Parsed {
					decide(call)
				}
			}))
			want := contract.Call(mode, words, max(now, 0), get)
			if want.Err != "" || call.Verdict == Error {
				message := errorOf(t, call)
				require.Zero(t, call.Writes)
				require.Regexp(t, `^(ERR|WRONGTYPE) [ -~]+$`, message)
				require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
				require.NotEmpty(t, want.Err, message)
				require.True(t, strings.HasPrefix(message, string(want.Err)), "%q: %q, want %q", words, message, want.Err)
				continue
			}
			require.Equal(t, want.Reply, replyOf(call), "%q", words)
			for i, write := range want.Writes {
				if write.Holder != "" { // what C finds out when it writes
					want.Writes[i].Left, want.Writes[i].Expiry = nil, 0
				}
			}
			require.Equal(t, want.Writes, writesOf(t, call), "%q", words)
			require.Equal(t, verdicts[want.Name], call.Verdict, "%q", words)
		}
	})
}
