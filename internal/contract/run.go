package contract

import (
	"math/big"
	"slices"
	"strings"
)

// A Command says how a command reads its words, which operation it is, and how it replies.
type Command struct {
	Name      string
	Operation string
	MinWords  int    // the name included; 5 if the quantity may be left out
	Rows      int    // at most
	LastWord  string // which may be left out
	Seconds   bool   // the reply has five integers, in whole seconds; otherwise it has rows
}

// Commands are all commands. Tests with random calls choose from them.
var Commands = []Command{
	{Name: "cl.throttle", Operation: "reserve", MinWords: 5, Rows: 1, Seconds: true},
	{Name: "cl.reserve", Operation: "reserve", MinWords: 6, Rows: 64, LastWord: "max_wait"},
	{Name: "cl.take", Operation: "take", MinWords: 6, Rows: 1},
	{Name: "cl.peek", Operation: "peek", MinWords: 6, Rows: 64},
	{Name: "cl.charge", Operation: "charge", MinWords: 6, Rows: 64},
	{Name: "cl.refund", Operation: "refund", MinWords: 6, Rows: 64, LastWord: "tat"},
}

// CommandOf returns the command of that name, and whether it is a command of funnel.
func CommandOf(name string) (command Command, ours bool) {
	for _, command := range Commands {
		if command.Name == name {
			return command, true
		}
	}
	return Command{}, false
}

// Run executes a command with its words, the name in front, at an instant in nanoseconds; get reads
// a key.
func Run(mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	command, _ := CommandOf(words[0])
	if !command.Seconds {
		mode = Default
	}
	words = words[1:]
	if len(words) == 4 && command.MinWords == 5 {
		words = append(words[:4:4], "1")
	}
	length, rest := len(words)/5, len(words)%5
	if length < 1 || length > command.Rows || rest > 1 || rest == 1 && command.LastWord == "" {
		return failed(ErrArity, 0, 1)
	}
	var err Error
	rows := make([]Row, length)
	for i := range rows {
		rows[i], err = command.parse(mode, [5]string(words[5*i:]))
		if err != "" {
			return failed(err, i, length)
		}
	}
	maxWait, receipt, err := command.parseLastWord(words[5*length:], rows)
	if err != "" {
		return failed(err, 0, 1)
	}
	for i, row := range rows {
		if slices.ContainsFunc(rows[:i], func(before Row) bool { return before.key() == row.key() }) {
			return failed(ErrTwice, i, length)
		}
	}
	instant := big.NewInt(now)
	for i, row := range rows {
		quota, isQuota := row.(*Quota)
		if isQuota && quota.ended(command.Operation, instant) != "" {
			return failed(quota.ended(command.Operation, instant), i, length)
		}
	}

	for i, row := range rows {
		err = row.read(get(row.key()), instant)
		if err != "" {
			return failed(err, i, length)
		}
	}
	answers := make([]Answer, length)
	for i, row := range rows {
		answers[i], err = row.decide(command.Operation, instant, maxWait, receipt)
		if err != "" {
			return failed(err, i, length)
		}
	}
	return together(command, rows, answers, instant)
}

// failed is the outcome of a call with an error. The error names its row if there are several rows.
func failed(err Error, index, length int) Outcome {
	outcome := Outcome{Name: string(err), Err: err}
	if strings.HasPrefix(string(err), string(ErrEnded)) {
		outcome.Name = string(ErrEnded)
	}
	if length > 1 {
		outcome.Err = err.Of(index + 1)
	}
	return outcome
}

// parseLastWord reads the word after the rows, which may be left out. Then max_wait is 0, and the
// receipt is so late that it bounds no refund.
func (c Command) parseLastWord(word []string, rows []Row) (maxWait, receipt *big.Int, err Error) {
	if len(word) == 0 {
		return zero, maxInt63, ""
	}
	wrong, withSlots, withUntil, withSeveral := ErrMaxWait, ErrMaxWaitWithSlots, ErrMaxWaitWithUntil, ErrMaxWaits
	ok := false
	if c.LastWord == "tat" {
		wrong, withSlots, withUntil, withSeveral = ErrReceipt, ErrReceiptWithSlots, ErrReceiptWithUntil, ErrReceipts
		receipt, ok = Integer(0, word[0])
	} else {
		maxWait, ok = Seconds(word[0])
	}
	switch {
	case !ok:
		return nil, nil, wrong
	case c.LastWord == "max_wait" && maxWait.Sign() == 0:
	case slices.ContainsFunc(rows, func(row Row) bool { _, isSlots := row.(*Slots); return isSlots }):
		return nil, nil, withSlots
	case slices.ContainsFunc(rows, func(row Row) bool { _, isQuota := row.(*Quota); return isQuota }):
		return nil, nil, withUntil
	case len(rows) > 1:
		return nil, nil, withSeveral
	}
	return maxWait, receipt, ""
}

// together is the outcome of the whole call: it is limited if any row is limited, and its wait is
// the longest wait, or -1 if any row says -1. A reserve that is limited takes nothing from any row.
func together(command Command, rows []Row, answers []Answer, now *big.Int) Outcome {
	limited, wait, asks := false, int64(0), false
	for i, answer := range answers {
		limited = limited || answer.Limited
		if wait >= 0 && (answer.Wait < 0 || answer.Wait > wait) {
			wait = answer.Wait
		}
		asks = asks || rows[i].asks()
	}
	taken := int64(0)
	switch row := rows[0].(type) {
	case *Funnel:
		taken = row.taken
	case *Quota:
		taken = row.taken()
	}
	outcome, replies := Outcome{Name: nameOf(command.Operation, asks, limited, wait, taken)}, []any{}
	for i, answer := range answers {
		if command.Operation == "reserve" && limited && !answer.Limited {
			answer = rows[i].takeBack(now)
		}
		write, changes := rows[i].write(now.Int64())
		if changes {
			outcome.Writes = append(outcome.Writes, write)
		}
		replies = append(replies, []any{number(answer.Limited), answer.Limit, answer.Remaining,
			seconds(answer.Wait), seconds(answer.ResetAfter), rows[i].last(command.Operation, now)})
	}
	outcome.Reply = []any{number(limited), seconds(wait), replies}
	switch {
	case command.Seconds:
		outcome.Reply = answers[0].inSeconds()
	case command.Operation == "take":
		outcome.Reply = append(outcome.Reply, taken)
	}
	return outcome
}

// nameOf is the name of the outcome of a call without an error.
func nameOf(operation string, asks, limited bool, wait, taken int64) string {
	switch {
	case !asks || operation == "peek":
		return Peeked
	case operation == "charge":
		return Charged
	case operation == "refund":
		return Refunded
	case operation == "take" && limited && taken > 0:
		return Partly
	case wait < 0:
		return Never
	case limited:
		return Limited
	case wait > 0:
		return Later
	}
	return Allowed
}

// inSeconds is the reply of CL.THROTTLE.
func (a Answer) inSeconds() []any {
	retryAfter := int64(-1)
	if a.Limited && a.Wait != -1 {
		retryAfter = roundedUp(big.NewInt(a.Wait), 1e9)
	}
	return []any{number(a.Limited), a.Limit, a.Remaining, retryAfter, roundedUp(big.NewInt(a.ResetAfter), 1e9)}
}

// number is 1 for true, and 0 for false.
func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
