package contract

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A Command is how a command reads its words, which operation it is, and how it replies.
type Command struct {
	Name       string
	Operation  string
	LeastWords int    // the name included; 5 where the quantity may be left out
	Funnels    int    // at most
	LastWord   string // which may be left out
	Seconds    bool   // five integers, in whole seconds; otherwise rows
}

// Commands are all commands: tests with random calls take theirs from here.
var Commands = []Command{
	{Name: "cl.throttle", Operation: "reserve", LeastWords: 5, Funnels: 1, Seconds: true},
	{Name: "cl.reserve", Operation: "reserve", LeastWords: 6, Funnels: 64, LastWord: "max_wait"},
	{Name: "cl.take", Operation: "take", LeastWords: 6, Funnels: 1},
	{Name: "cl.peek", Operation: "peek", LeastWords: 6, Funnels: 64},
	{Name: "cl.charge", Operation: "charge", LeastWords: 6, Funnels: 64},
	{Name: "cl.refund", Operation: "refund", LeastWords: 6, Funnels: 64, LastWord: "tat"},
}

// CommandOf is the command of that name, if it is one of ours.
func CommandOf(name string) (command Command, ours bool) {
	for _, command := range Commands {
		if command.Name == name {
			return command, true
		}
	}
	return Command{}, false
}

// Call is a command with its words, the name in front, at an instant in nanoseconds; get
// reads a key.
func Call(mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	command, _ := CommandOf(words[0])
	if !command.Seconds {
		mode = Default
	}
	if words = words[1:]; len(words) == 4 && command.LeastWords == 5 {
		words = append(words[:4:4], "1")
	}
	length, rest := len(words)/5, len(words)%5
	if length < 1 || length > command.Funnels || rest > 1 || rest == 1 && command.LastWord == "" {
		return failed(ErrArity, 0, 1)
	}
	var err Error
	funnels := make([]Funnel, length)
	for i := range funnels {
		row := [5]string(words[5*i:])
		if strings.ToLower(row[2]) == "slots" && command.Operation != "take" && !command.Seconds {
			funnels[i], err = parseSlots(row)
		} else {
			funnels[i], err = parseFunnel(command.Operation, mode, row)
		}
		if err != "" {
			return failed(err, i, length)
		}
	}
	maxWait, receipt, err := command.parseLastWord(words[5*length:], funnels)
	if err != "" {
		return failed(err, 0, 1)
	}
	for i, funnel := range funnels {
		if slices.ContainsFunc(funnels[:i], func(before Funnel) bool { return before.Key == funnel.Key }) {
			return failed(ErrTwice, i, length)
		}
	}

	tats, instant := make([]*big.Int, length), big.NewInt(now)
	for i, funnel := range funnels {
		if tats[i], err = funnel.stored(get(funnel.Key), instant); err != "" {
			return failed(err, i, length)
		}
	}
	decisions, taken := make([]Decision, length), int64(0)
	for i, funnel := range funnels {
		decisions[i], taken, err = funnel.Decide(command.Operation, tats[i], instant, maxWait, receipt)
		if err != "" {
			return failed(err, i, length)
		}
	}
	return together(command, funnels, tats, decisions, taken, instant)
}

// failed is an error of a row; it names the row if there are several.
func failed(err Error, index, length int) Outcome {
	outcome := Outcome{Name: string(err), Err: err}
	if length > 1 {
		outcome.Err = err.Of(index + 1)
	}
	return outcome
}

// parseLastWord reads max_wait, 0 if it is left out, or the receipt: as late as can be, it bounds no refund.
func (c Command) parseLastWord(word []string, funnels []Funnel) (maxWait, receipt *big.Int, err Error) {
	if len(word) == 0 {
		return zero, most, ""
	}
	wrong, ofSlots, ofSeveral, ok := ErrMaxWait, ErrMaxWaitOfSlots, ErrMaxWaits, false
	if c.LastWord == "tat" {
		wrong, ofSlots, ofSeveral = ErrReceipt, ErrReceiptOfSlots, ErrReceipts
		receipt, ok = Integer(0, word[0])
	} else {
		maxWait, ok = Seconds(word[0])
	}
	switch {
	case !ok:
		return nil, nil, wrong
	case c.LastWord == "max_wait" && maxWait.Sign() == 0:
	case slices.ContainsFunc(funnels, func(funnel Funnel) bool { return funnel.Slots != nil }):
		return nil, nil, ofSlots
	case len(funnels) > 1:
		return nil, nil, ofSeveral
	}
	return maxWait, receipt, ""
}

// together is the call as a whole: limited if any row is, and the longest wait, or -1 if
// any row says -1. A reservation that is limited takes nothing anywhere.
func together(command Command, funnels []Funnel, tats []*big.Int, decisions []Decision, taken int64, now *big.Int) Outcome {
	limited, wait, asked := false, int64(0), false
	for i, decision := range decisions {
		limited = limited || decision.Limited
		if wait >= 0 && (decision.Wait < 0 || decision.Wait > wait) {
			wait = decision.Wait
		}
		asked = asked || funnels[i].Quantity.Sign() > 0
	}
	outcome, rows := Outcome{Name: nameOf(command.Operation, asked, limited, wait, taken)}, []any{}
	for i, decision := range decisions {
		if command.Operation == "reserve" && limited && !decision.Limited {
			decision, _, _ = funnels[i].Decide("peek", tats[i], now, nil, nil)
		}
		changed, receipt := decision.TAT != tats[i].Int64(), "0"
		if changed {
			outcome.Writes = append(outcome.Writes, funnels[i].write(decision.TAT, now.Int64()))
		}
		if funnels[i].Slots != nil {
			receipt = seconds(until(tats[i].Int64(), now))
		} else if changed && command.Operation != "refund" {
			receipt = strconv.FormatInt(decision.TAT, 10)
		}
		rows = append(rows, []any{number(decision.Limited), decision.Limit, decision.Remaining,
			seconds(decision.Wait), seconds(decision.ResetAfter), receipt})
	}
	outcome.Reply = []any{number(limited), seconds(wait), rows}
	switch {
	case command.Seconds:
		outcome.Reply = decisions[0].inSeconds()
	case command.Operation == "take":
		outcome.Reply = append(outcome.Reply, taken)
	}
	return outcome
}

func nameOf(operation string, asked, limited bool, wait, taken int64) string {
	switch {
	case !asked || operation == "peek":
		return Peeked
	case operation == "charge":
		return Charged
	case operation == "refund":
		return Refunded
	case limited && taken > 0:
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
func (d Decision) inSeconds() []any {
	retryAfter := int64(-1)
	if d.Limited && d.Wait != -1 {
		retryAfter = roundedUp(big.NewInt(d.Wait), 1e9)
	}
	return []any{number(d.Limited), d.Limit, d.Remaining, retryAfter, roundedUp(big.NewInt(d.ResetAfter), 1e9)}
}

// number is 1 for true, and 0 for false.
func number(is bool) int64 { return map[bool]int64{true: 1}[is] }
