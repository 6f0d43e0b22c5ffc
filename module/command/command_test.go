// A call is answered as the contract says, and an error names what is wrong in one printable line.

package command

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/internal/contract"
)

const (
	today int64 = 1795236055976124882 // an instant in 2026
	most        = "9223372036854775807"
)

// operations are the operations of package call, by their names in the contract.
var operations = map[string]call.Operation{
	"reserve": call.Reserve, "take": call.Take, "peek": call.Peek, "charge": call.Charge, "refund": call.Refund,
}

// stale is a number of an earlier call: C does not clear the struct.
const stale = 77

// callOf is a call as C makes it, of the words of a command. The fields that Go fills in hold
// numbers of an earlier call.
func callOf(mode contract.Mode, words []string, now int64) *Call {
	command, _ := contract.CommandOf(words[0])
	operation, known := operations[command.Operation]
	if !known {
		panic("unknown operation: " + command.Operation)
	}
	words = words[1:]
	c := &Call{Operation: operation, Form: InRows, Length: uint32(max(1, len(words)/5)), Now: now,
		MaxWait: stale, Receipt: stale, Verdict: stale, ErrorRow: stale, MessageLength: stale, Writes: stale,
		Seconds: [SecondsLength]int64{stale, stale, stale, stale, stale},
		Limited: stale, Taken: stale, Wait: staleDecimal()}
	if command.Seconds {
		c.Form, c.LimitSurplus = InSeconds, int64(mode)
	}
	for i := range c.Message {
		c.Message[i] = 'x'
	}
	if len(words)%5 == 1 {
		c.LastWord = words[len(words)-1]
		if c.LastWord == "" { // an empty string of the server has bytes
			c.LastWord = "x"[:0]
		}
	}
	for i := range c.Length {
		decided := &c.Decided[i]
		decided.Kind = stale
		decided.Funnel.TAT, decided.Funnel.Decision.Wait, decided.Funnel.Taken = stale, stale, stale
		decided.Slots.State.Own, decided.Slots.Decision.Wait = stale, stale
		decided.Quota.State.Used, decided.Quota.Decision.Wait, decided.Quota.Taken = stale, stale, stale
		decided.Decision = call.Decision{Limited: true, Wait: stale}
		c.Replies[i] = RowReply{Limited: stale, Limit: stale, Remaining: stale,
			Wait: staleDecimal(), ResetAfter: staleDecimal()}
		c.Rows[i] = Row{
			Words:        [WordsPerRow]string(append(slices.Clone(words[5*i:]), "1")),
			ComparedWith: stale, Alike: stale, Kind: stale, Write: stale,
			String: StringKey{Stored: "77", StoredExpiry: stale, Value: staleDecimal(), Expiry: staleDecimal()},
			Funnel: Funnel{HasReceipt: stale},
			Slots:  Slots{Limit: stale, End: staleDecimal(), Held: staleDecimal()},
			Quota:  Quota{Until: staleDecimal()},
		}
	}
	return c
}

// run makes the two crossings of a command. Get reads a key.
func run(c *Call, get func(key string) contract.Value) {
	if Parse(c); c.Verdict == Parsed {
		c.store(get)
		Decide(c)
	}
}

// errorOf returns the error reply of a call.
func errorOf(t testing.TB, c *Call) string {
	require.Equal(t, Error, c.Verdict)
	text, _, terminated := strings.Cut(string(c.Message[:]), "\x00")
	require.True(t, terminated)
	return text
}

// text returns the digits as C sends them.
func (decimal *Decimal) text() string { return string(decimal.Bytes[decimal.Start:decimal.End]) }

// replyOf returns the reply of a call, in the words of the contract.
func replyOf(c *Call) (reply []any) {
	if c.Form == InSeconds {
		for _, number := range c.Seconds {
			reply = append(reply, number)
		}
		return reply
	}
	rows := make([]any, c.Length)
	for i := range rows {
		reply, row, last := &c.Replies[i], &c.Rows[i], "0"
		switch {
		case row.Kind == call.Slots:
			last = row.Slots.Held.text()
		case row.Kind == call.Quota:
			last = row.Quota.Until.text()
		case row.Funnel.HasReceipt == 1:
			last = row.String.Value.text()
		case row.Funnel.HasReceipt != 0:
			last = "neither 0 nor 1"
		}
		rows[i] = []any{reply.Limited, reply.Limit, reply.Remaining, reply.Wait.text(), reply.ResetAfter.text(), last}
	}
	reply = []any{c.Limited, c.Wait.text(), rows}
	if c.Operation == call.Take {
		reply = append(reply, c.Taken)
	}
	return reply
}

// writesOf returns the writes of a call, in the words of the contract: of a set, the holder's member
// alone, since C finds out the rest when it writes.
func writesOf(t testing.TB, c *Call) (writes []contract.Write) {
	for i := range c.Length {
		row := &c.Rows[i]
		if row.Write == WriteNothing {
			continue
		}
		write := contract.Write{Key: row.Words[0]}
		switch {
		case row.Write == WriteRemoval:
		case row.Kind == call.Slots:
			require.Equal(t, strconv.FormatInt(row.Slots.EndMilliseconds, 10), row.Slots.End.text())
			write.Value = contract.Value{Type: "zset",
				Scores: map[string]float64{row.Words[holderWord]: float64(row.Slots.EndMilliseconds)}}
		default:
			require.Equal(t, WriteState, row.Write)
			require.Equal(t, strconv.FormatInt(row.String.ExpiryMilliseconds, 10), row.String.Expiry.text())
			write.Value = contract.Value{Type: "string", Text: row.String.Value.text(), Expiry: row.String.ExpiryMilliseconds}
		}
		writes = append(writes, write)
	}
	require.Len(t, writes, int(c.Writes))
	return writes
}

// onlyOwn leaves of the sets that the contract writes what Go knows of them.
func onlyOwn(c *Call, writes []contract.Write) []contract.Write {
	for i := range c.Length {
		row := &c.Rows[i]
		for w := range writes {
			if write := &writes[w]; write.Key == row.Words[0] && row.Kind == call.Slots {
				end, holds := write.Value.Scores[row.Words[holderWord]]
				if *write = (contract.Write{Key: write.Key}); holds {
					write.Value = contract.Value{Type: "zset", Scores: map[string]float64{row.Words[holderWord]: end}}
				}
			}
		}
	}
	return writes
}

// verdicts are what INFO counts the outcomes of the contract as.
var verdicts = map[string]uint32{
	contract.Allowed: Allowed, contract.Later: Allowed, contract.Partly: Allowed,
	contract.Limited: Limited, contract.Never: Limited,
	contract.Peeked: Peeked, contract.Charged: Charged, contract.Refunded: Refunded,
}

// FuzzCommand: whatever the words and the keys, the answer of each command is what the
// contract says, an error is one printable line that fits its buffer, and nothing is
// allocated on the way. Kinds say what the two keys hold, and when they expire.
func FuzzCommand(f *testing.F) {
	in := func(ahead int64) string { return strconv.FormatInt(today+ahead, 10) }
	for _, c := range []struct {
		words     string // of one funnel
		kind      uint8
		value     string
		redisCell bool
	}{
		{"15 30 60 1", 0, "", false},
		{"15 30 60 1", 1, in(0), false},
		{"15 30 60 1", 1, in(10e9), false},
		{"15 30 60 1", 1, in(28e9), false},
		{"15 30 60 1", 1, in(28e9 + 1), false},
		{"15 30 60 1", 1, in(30e9), false},
		{"15 30 60 " + most, 0, "", false},
		{"15 30 60 " + most, 1, in(28e9), false},
		{"15 30 60 " + most, 1, in(28e9 + 1), false},
		{"15 30 60 4", 1, in(25e9), false},
		{"15 30 60 16", 1, in(30e9), false},
		{"15 30 60 0", 1, in(10e9), false},
		{"15 30 60 0", 1, in(40e9), false},
		{"1 1 0.000000001 1", 0, "", false},
		{"1 1 9223372036 1", 0, "", false},
		{"1 1 1 1", 1, most, false},
		{"0 1 1 1", 0, "", true},
		{"0 1 1 1", 0, "", false},
		{"9223372036854775806 1 0.000000001 1", 0, "", true},
		{most + " 1 0.000000001 1", 0, "", true},
		{most + " 2 0.000000001 1", 0, "", true},
		{"15 30 60 1", 1, "-1", false},
		{"15 30 60 1", 1, "9223372036854775808", false},
		{"15 30 60 1", 1, "", false},
		{"15 30 60 1", 1, "01", false},
		// Errors come in this order.
		{"x x x x", 2, "", false},
		{"x x x x", 2, "", true},
		{"1 x x x", 2, "", false},
		{"1 1 x x", 2, "", false},
		{"1 1 1 x", 2, "", false},
		{most + " " + most + " 1 " + most, 2, "", false},
		{most + " 1 1 " + most, 2, "", false},
		{"1 1 1 " + most, 2, "", false},
		{"1 1 1 1", 2, "", false},
		{most + " " + most + " 9223372036.854775807 " + most, 1, "0", false},
		{"1 1 1 " + strings.Repeat("\xff", 100), 0, "", false},
	} {
		words := strings.Split(c.words, " ")
		for key, lastWord := range map[string]string{"a": "0", "b": "2.5", "": most} {
			f.Add(words[0], words[1], words[2], words[3], c.kind, c.value,
				key, "1", "1", "1", "1", c.kind/2, in(1e9), lastWord, today, c.redisCell)
		}
		f.Add(words[0], words[1], words[2], words[3], c.kind, c.value,
			"b", words[0], "30", "60", "1", c.kind, "0", "x", int64(-1), c.redisCell)
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
	for _, set := range []string{"", "h=" + ends(1), "x=" + ends(1), "h=" + ends(0), "x=" + ends(0), "h=" + ends(30_000),
		"h=+Inf", "x=-Inf", "x=" + ends(1) + "5 y=+Inf",
		"h=" + ends(1) + " x=" + ends(2), "x=" + ends(40_000) + " y=9e15 z=1", "h=9300000000000"} {
		for _, limit := range []string{"0", "1", "2", most} {
			f.Add(limit, "SLOTS", "30", "h", uint8(3), set, "b", "1", "1", "1", "1", uint8(1), in(1e9), "0", today, false)
			f.Add(limit, "SLOTS", "30", "h", uint8(3), set, "b", "1", "sLoTs", "0.001", "h", uint8(0), "", "0", today, false)
			f.Add("1", "1", "1", "1", uint8(1), in(0), "b", limit, "SLOTS", "30", "h", uint8(3), set, "5", today, false)
		}
	}
	for _, words := range []string{"x SLOTS x ", "-1 SLOTS 1 h", "1 SLOTS 0.0009 h", "1 SLOTS 0.001 h",
		"1 SLOTS 1 ", "1 SLOTS 9223372036.854775807 h", "1 SLOT 1 1", "1 SLOTSS 1 1"} {
		word := strings.Split(words, " ")
		for kind := range uint8(4) {
			f.Add(word[0], word[1], word[2], word[3], kind, "h=1", "b", "1", "1", "1", "1", kind, in(0), "7", today, false)
		}
	}
	f.Add("1", "SLOTS", "1", strings.Repeat("h", 255), uint8(0), "",
		"b", "1", "SLOTS", "1", strings.Repeat("h", 256), uint8(0), "", "0", int64(-1), false)
	// Quotas: new, with room, full, overfull, in keys that expire never, just now, before until, with it and later; then
	// errors.
	for _, stored := range []string{"", "used:1", "used:9", "used:10", "used:11", "used:" + most, "used:0", "used:01", "used:",
		"Used:1", "uSed:1", "us\x00d:1", "useD:1", "used;1", "used:9223372036854775808", "1", "used:-1"} {
		kind := uint8(min(1, len(stored)))
		for _, words := range []string{"10 UNTIL 1795236075.976124882 1", "10 until 1795236086.976124882 9", "0 UNTIL 1795236075 1",
			most + " UNTIL 9223372036.854775807 " + most, "10 UnTiL 1795236055.976124882 1", "10 UNTIL 1795236055.976124883 0"} {
			word := strings.Split(words, " ")
			for expiry := range uint8(len(expiries)) {
				f.Add(word[0], word[1], word[2], word[3], kind+4*expiry, stored,
					"b", "15", "30", "60", "16", uint8(1), in(1e9), "0", today, false)
				f.Add("1", "SLOTS", "30", "h", uint8(0), "",
					"b", word[0], word[1], word[2], word[3], kind+4*expiry, stored, "5", today, false)
			}
			f.Add(word[0], word[1], word[2], word[3], uint8(2), "", "b", "1", "1", "1", "1", uint8(3), "h=1", "0", today, false)
		}
	}
	for _, words := range []string{"x UNTIL 0 x", "1 UNTIL 0 x", "1 UNTIL 1e9 1", "1 UNTIL 1800000000 x", "1 UNTIL 1800000000 -1",
		"-1 UNTIL 1800000000 1", "1 UNTILL 1 1", "1 UNTI 1 1", "0 UNTIL 9223372036.854775808 1"} {
		word := strings.Split(words, " ")
		for kind := range uint8(4) {
			f.Add(word[0], word[1], word[2], word[3], kind, "used:1", "b", "1", "1", "1", "1", kind, in(0), "7", today, false)
		}
	}
	// Instants before 1970 count as 0, even for a refund that empties a funnel.
	f.Add("1", "1", "1", "0", uint8(0), "", "0", "1", "1", "1", "1", uint8(1), "1", "0", int64(-1), false)
	f.Fuzz(func(t *testing.T, capacity, count, period, quantity string, kind uint8, value string,
		key, capacity2, count2, period2, quantity2 string, kind2 uint8, value2, lastWord string, now int64, redisCell bool) {
		get := func(name string) contract.Value {
			if name == "a" {
				return held(kind, value, now)
			}
			return held(kind2, value2, now)
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
				takesLastWord := len(words)%5 != 1 || command.LastWord != ""
				if 1+len(words) >= command.MinWords && len(words)/5 <= command.Rows && takesLastWord {
					calls = append(calls, append([]string{command.Name}, words...))
				}
			}
		}
		for _, words := range calls {
			c := callOf(mode, words, now)
			run(c, get)
			require.Zero(t, testing.AllocsPerRun(1, func() {
				if Parse(c); c.Verdict == Parsed {
					Decide(c)
				}
			}))
			want := contract.Run(mode, words, max(now, 0), get)
			if want.Err != "" || c.Verdict == Error {
				message := errorOf(t, c)
				require.Zero(t, c.Writes)
				require.Regexp(t, `^(ERR|WRONGTYPE|ENDED) [ -~]+$`, message)
				require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
				require.NotEmpty(t, want.Err, message)
				require.True(t, strings.HasPrefix(message, string(want.Err)), "%q: %q, want %q", words, message, want.Err)
				continue
			}
			require.Equal(t, want.Reply, replyOf(c), "%q", words)
			require.Equal(t, onlyOwn(c, want.Writes), writesOf(t, c), "%q", words)
			require.Equal(t, verdicts[want.Name], c.Verdict, "%q", words)
		}
	})
}
