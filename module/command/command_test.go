// The answer to a call is the contract's, and an error names what is wrong in one printable line.

package command

import (
	"flag"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/call"
	"funnel/internal/contract"
	"funnel/slots"
)

const (
	second int64 = 1e9
	today        = 1_795_236_055*second + 976_124_882 // an instant in 2026
)

// operations are the operations of package call, by their names in the contract.
var operations = map[string]call.Operation{
	"reserve": call.Reserve, "take": call.Take, "peek": call.Peek, "charge": call.Charge, "refund": call.Refund,
}

// set fills in the call from words, as C does. It leaves the fields that Go fills in: they hold
// numbers of the previous call.
func (c *Call) set(mode contract.Mode, words []string, now int64) {
	command, _ := contract.CommandOf(words[0])
	operation, known := operations[command.Operation]
	if !known {
		panic("unknown operation: " + command.Operation)
	}
	words = words[1:]
	c.Operation, c.Form, c.Length, c.Now = operation, InRows, uint32(max(1, len(words)/5)), now
	c.LimitSurplus, c.LastWord = 0, ""
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
		c.Rows[i].Words = [WordsPerRow]string(append(slices.Clone(words[5*i:]), "1"))
	}
}

// run does the two crossings of a command. Get reads a key.
func run(c *Call, get func(key string) contract.Value) {
	Parse(c)
	if c.Verdict == Parsed {
		c.store(get)
		Decide(c)
	}
}

// store gives values to the keys of a call that was parsed, as C reads them.
func (c *Call) store(get func(key string) contract.Value) {
	for i := range c.Length {
		row := &c.Rows[i]
		value := get(row.Words[0])
		switch {
		case value.Type == "":
			row.Stored, row.Slots.State = StoredNothing, slots.State{}
		case value.Type == "string" && row.Kind != call.Slots:
			row.Stored, row.String.Stored, row.String.StoredExpiry = StoredOfKind, value.Text, value.Expiry
		case value.Type == "zset" && row.Kind == call.Slots:
			row.Stored = StoredOfKind
			row.Slots.State = stateOf(value.Scores, row, c.Now/1e6)
		default:
			row.Stored = StoredOtherType
		}
	}
}

// stateOf returns the state of a set as C reads it, at an instant in milliseconds.
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

// errorOf returns the error reply of a call.
func errorOf(t require.TestingT, c *Call) string {
	require.Equal(t, Error, c.Verdict)
	text, _, terminated := strings.Cut(string(c.Message[:]), "\x00")
	require.True(t, terminated)
	return text
}

// text returns the text that C sends.
func (decimal *Decimal) text() string { return string(decimal.Bytes[decimal.Start:decimal.End]) }

// replyOf returns the reply of a call in the form of package contract.
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

// writesOf returns the writes of a call in the form of package contract. A set has only the
// holder's member, because C determines the other members when it writes.
func writesOf(t require.TestingT, c *Call) (writes []contract.Write) {
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

// onlyOwn reduces the sets among the writes of the contract to the holder's member.
func onlyOwn(c *Call, writes []contract.Write) []contract.Write {
	for i := range c.Length {
		row := &c.Rows[i]
		for w := range writes {
			write := &writes[w]
			if write.Key == row.Words[0] && row.Kind == call.Slots {
				end, holds := write.Value.Scores[row.Words[holderWord]]
				*write = contract.Write{Key: write.Key}
				if holds {
					write.Value = contract.Value{Type: "zset", Scores: map[string]float64{row.Words[holderWord]: end}}
				}
			}
		}
	}
	return writes
}

// verdicts has the verdict under which INFO counts each outcome of the contract.
var verdicts = map[string]uint32{
	contract.Allowed: Allowed, contract.Later: Allowed, contract.Partly: Allowed,
	contract.Limited: Limited, contract.Never: Limited,
	contract.Peeked: Peeked, contract.Charged: Charged, contract.Refunded: Refunded,
}

// agree returns the property: for any words and keys, the answer of each command is the contract's,
// an error is one printable line that fits its buffer, and a call allocates nothing. It counts the
// outcomes that it meets.
func agree(met map[string]int) func(t *rapid.T) {
	return func(t *rapid.T) {
		now := rapid.OneOf(contract.Between(today, today+3600*second), contract.Between(today, today+3600*second),
			contract.Between(-1, math.MaxInt64)).Draw(t, "now")
		mode := rapid.SampledFrom([]contract.Mode{contract.Default, contract.RedisCell}).Draw(t, "mode")
		kinds := []string{"funnel", "funnel", "slots", "quota", "quota", "numbers"}
		first, other := contract.DrawRow(t, max(now, 0), kinds...), contract.DrawRow(t, max(now, 0), kinds...)
		key := rapid.SampledFrom([]string{"b", "b", "b", "b", "", "a"}).Draw(t, "second key")
		get := func(name string) contract.Value {
			if name == "a" {
				return first.Value
			}
			return other.Value
		}
		c := new(Call)
		lastWords := first.DrawLastWords(t, now)
		one := append([]string{"a"}, first.Words[:]...)
		two := slices.Concat(one, []string{key}, other.Words[:])
		for _, command := range contract.Commands {
			lastWord := lastWords[command.LastWord]
			for _, words := range [][]string{one[:4], one, two, append(one[:5:5], lastWord), append(two[:10:10], lastWord)} {
				takesLastWord := len(words)%5 != 1 || command.LastWord != ""
				if 1+len(words) >= command.MinWords && len(words)/5 <= command.Rows && takesLastWord {
					met[requireAgreement(t, c, mode, append([]string{command.Name}, words...), now, get)]++
				}
			}
		}
	}
}

// requireAgreement makes a call in a struct that an earlier call has used, and returns the name of
// its outcome.
func requireAgreement(
	t *rapid.T, c *Call, mode contract.Mode, words []string, now int64, get func(string) contract.Value,
) string {
	c.set(mode, words, now)
	run(c, get)
	require.Zero(t, testing.AllocsPerRun(1, func() {
		Parse(c)
		if c.Verdict == Parsed {
			Decide(c)
		}
	}))
	want := contract.Run(mode, words, max(now, 0), get)
	if want.Err != "" || c.Verdict == Error {
		message := errorOf(t, c)
		require.Zero(t, c.Writes)
		require.Regexp(t, `^(INVALID|WRONGTYPE|ENDED) [ -~]+$`, message)
		require.Less(t, len(message), MessageCapacity-1, "nothing was left out")
		require.NotEmpty(t, want.Err, "%q: %s", words, message)
		require.True(t, strings.HasPrefix(message, string(want.Err)), "%q: %q, want %q", words, message, want.Err)
		return want.Name
	}
	require.Equal(t, want.Reply, replyOf(c), "%q", words)
	require.Equal(t, onlyOwn(c, want.Writes), writesOf(t, c), "%q", words)
	require.Equal(t, verdicts[want.Name], c.Verdict, "%q", words)
	return want.Name
}

// More than rapid's 100 checks by default: few inputs are edge cases. -rapid.checks on the command
// line overrides it.
func init() {
	err := flag.Set("rapid.checks", "5000")
	if err != nil {
		panic(err)
	}
}

func TestCommandsAgreeWithTheContract(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, agree(met))
	for _, outcome := range slices.Concat(contract.Outcomes, contract.SlotsErrors, contract.QuotaErrors) {
		if outcome != string(contract.ErrArity) { // C counts the words
			require.Greater(t, met[outcome], 10, "%q was hardly met: %v", outcome, met)
		}
	}
}

func FuzzCommand(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agree(map[string]int{}))) }
