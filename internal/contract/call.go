package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A Command is how a command reads its words, which operation it is, and how it replies.
type Command struct {
	Name             string
	Operation        string
	Funnels          int  // at most
	QuantityOptional bool // of the only funnel
	MaxWait          bool // as the last word, which may be left out
	Seconds          bool // five integers, in whole seconds; otherwise rows
}

// Commands are all commands: tests with random calls take theirs from here.
var Commands = []Command{
	{Name: "cl.throttle", Operation: "reserve", Funnels: 1, QuantityOptional: true, Seconds: true},
	{Name: "cl.reserve", Operation: "reserve", Funnels: 64, MaxWait: true},
	{Name: "cl.peek", Operation: "peek", Funnels: 64},
	{Name: "cl.charge", Operation: "charge", Funnels: 64},
	{Name: "cl.refund", Operation: "refund", Funnels: 64},
}

// CommandOf is the command of that name, if it is one of ours.
func CommandOf(name string) (command Command, ours bool) {
	at := slices.IndexFunc(Commands, func(c Command) bool { return c.Name == name })
	if at < 0 {
		return Command{}, false
	}
	return Commands[at], true
}

// LeastWords is how many words a call has at least, the name included.
func (c Command) LeastWords() int {
	if c.QuantityOptional {
		return 5
	}
	return 6
}

// Call is a command with its words, the name in front, at an instant in nanoseconds; get
// reads a key.
func Call(mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	command, _ := CommandOf(words[0])
	words = words[1:]
	if command.QuantityOptional && len(words) == 4 {
		words = append(words[:4:4], "1")
	}
	length, rest := len(words)/5, len(words)%5
	if length < 1 || length > command.Funnels || rest > 1 || rest == 1 && !command.MaxWait {
		return failed(ErrArity)
	}
	maxWaitText := "0"
	if rest == 1 {
		maxWaitText = words[len(words)-1]
	}
	funnels := make([]Funnel, length)
	for i := range funnels {
		var err Error
		if funnels[i], err = ParseFunnel(mode, [5]string(words[5*i:])); err != "" {
			return failedAt(i, length, err)
		}
	}
	maxWait, ok := Seconds(maxWaitText)
	switch {
	case !ok:
		return failed(ErrMaxWait)
	case maxWait.Sign() > 0 && length > 1:
		return failed(ErrSeveral)
	}
	seen := map[string]bool{}
	for i, funnel := range funnels {
		if seen[funnel.Key] {
			return failedAt(i, length, ErrTwice)
		}
		seen[funnel.Key] = true
	}

	tats := make([]*big.Int, length)
	for i, funnel := range funnels {
		var err Error
		if tats[i], err = funnel.Stored(get(funnel.Key)); err != "" {
			return failedAt(i, length, err)
		}
	}
	decisions := make([]Decision, length)
	for i, funnel := range funnels {
		var err Error
		if decisions[i], err = funnel.decide(command.Operation, tats[i], big.NewInt(now), maxWait); err != "" {
			return failedAt(i, length, err)
		}
	}
	return together(command, funnels, tats, decisions, now)
}

func (f Funnel) decide(operation string, tat, now, maxWait *big.Int) (Decision, Error) {
	switch operation {
	case "reserve":
		return f.Reserve(tat, now, maxWait)
	case "peek":
		return f.Peek(tat, now)
	case "charge":
		return f.Charge(tat, now)
	default:
		return f.Refund(tat, now)
	}
}

// together is the call as a whole: limited if any row is, and the longest wait, or -1 if
// any row says -1. A reservation that is limited takes nothing anywhere.
func together(command Command, funnels []Funnel, tats []*big.Int, decisions []Decision, now int64) Outcome {
	limited, never, wait, asked := false, false, int64(0), false
	for i, decision := range decisions {
		limited = limited || decision.Limited
		never = never || decision.Wait < 0
		wait = max(wait, decision.Wait)
		asked = asked || funnels[i].Quantity.Sign() > 0
	}
	if never {
		wait = -1
	}

	outcome := Outcome{Name: nameOf(command.Operation, asked, limited, wait)}
	rows := make([]any, len(funnels))
	for i, decision := range decisions {
		if command.Operation == "reserve" && limited {
			decision = funnels[i].state(tats[i], big.NewInt(now), decision.Limited, big.NewInt(decision.Wait))
		}
		rows[i] = []any{number(decision.Limited), decision.Limit, decision.Remaining,
			seconds(decision.Wait), seconds(decision.ResetAfter)}
		switch {
		case decision.TAT == tats[i].Int64():
		case decision.TAT <= now:
			outcome.Writes = append(outcome.Writes, Write{Key: funnels[i].Key})
		default:
			outcome.Writes = append(outcome.Writes, set(funnels[i].Key, decision.TAT))
		}
	}
	outcome.Reply = []any{number(limited), seconds(wait), rows}
	if command.Seconds {
		outcome.Reply = decisions[0].inSeconds()
	}
	return outcome
}

func nameOf(operation string, asked, limited bool, wait int64) string {
	switch {
	case !asked || operation == "peek":
		return Peeked
	case operation == "charge":
		return Charged
	case operation == "refund":
		return Refunded
	case wait < 0:
		return Never
	case limited:
		return Limited
	case wait > 0:
		return Later
	}
	return Allowed
}

// failedAt names the funnel where there are several.
func failedAt(index, length int, err Error) Outcome {
	outcome := failed(err)
	if length > 1 {
		outcome.Err = err.Of(index + 1)
	}
	return outcome
}

func set(key string, tat int64) Write {
	return Write{key, strconv.FormatInt(tat, 10), roundedUp(big.NewInt(tat), 1e6)}
}

func failed(err Error) Outcome { return Outcome{Name: string(err), Err: err} }

// inSeconds is the reply of CL.THROTTLE.
func (d Decision) inSeconds() []any {
	retryAfter := int64(-1)
	if d.Limited && d.Wait != -1 {
		retryAfter = roundedUp(big.NewInt(d.Wait), 1e9)
	}
	return []any{number(d.Limited), d.Limit, d.Remaining, retryAfter, roundedUp(big.NewInt(d.ResetAfter), 1e9)}
}

// roundedUp is the least number of units that reaches the number.
func roundedUp(number *big.Int, unit int64) int64 {
	quotient, rest := new(big.Int).QuoRem(number, big.NewInt(unit), new(big.Int))
	return quotient.Int64() + int64(rest.Sign())
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// seconds writes nanoseconds as the replies of these commands do; -1 stays.
func seconds(nanoseconds int64) string {
	if nanoseconds < 0 {
		return "-1"
	}
	text := fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
