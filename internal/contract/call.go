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
	Funnels          int    // at most
	QuantityOptional bool   // of the only funnel
	LastWord         string // which may be left out
	Seconds          bool   // five integers, in whole seconds; otherwise rows
	Burst            bool   // words of GCRA: max_burst tokens_per_period period [TOKENS count]
}

// Commands are all commands: tests with random calls take theirs from here.
var Commands = []Command{
	{Name: "cl.throttle", Operation: "reserve", Funnels: 1, QuantityOptional: true, Seconds: true},
	{Name: "cl.reserve", Operation: "reserve", Funnels: 64, LastWord: "max_wait"},
	{Name: "cl.take", Operation: "take", Funnels: 1},
	{Name: "cl.peek", Operation: "peek", Funnels: 64},
	{Name: "cl.charge", Operation: "charge", Funnels: 64},
	{Name: "cl.refund", Operation: "refund", Funnels: 64, LastWord: "tat"},
	{Name: "gcra", Operation: "reserve", Funnels: 1, QuantityOptional: true, Seconds: true, Burst: true},
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

// Written puts the words of funnels, the command's name in front, as the command has them:
// GCRA has TOKENS in front of the quantity.
func (c Command) Written(words []string) []string {
	if c.Burst && len(words) > 5 {
		return slices.Insert(slices.Clone(words), 5, "TOKENS")
	}
	return words
}

// Worded is an error with the command's own names for the words.
func (c Command) Worded(err Error) Error {
	if c.Burst {
		return Error(strings.NewReplacer("capacity", "max_burst", "count", "tokens_per_period", "quantity", "count").Replace(string(err)))
	}
	return err
}

// Call is a command with its words, the name in front, at an instant in nanoseconds; get
// reads a key.
func Call(mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	command, _ := CommandOf(words[0])
	words = words[1:]
	isTokens := true
	if command.Burst {
		mode = RedisCell
		if len(words) == 5 {
			return failed(ErrArity)
		}
		if len(words) == 6 {
			isTokens = strings.EqualFold(words[4], "TOKENS")
			words = slices.Delete(slices.Clone(words), 4, 5)
		}
	}
	if command.QuantityOptional && len(words) == 4 {
		words = append(words[:4:4], "1")
	}
	length, rest := len(words)/5, len(words)%5
	if length < 1 || length > command.Funnels || rest > 1 || rest == 1 && command.LastWord == "" {
		return failed(ErrArity)
	}
	funnels := make([]Funnel, length)
	for i := range funnels {
		var err Error
		funnels[i], err = ParseFunnel(mode, [5]string(words[5*i:]), command.Operation == "take")
		if before := err == ErrCapacity || err == ErrCount || err == ErrPeriod; command.Burst && !before {
			if !isTokens {
				return failed(ErrSyntax)
			}
			if _, ok := Integer(1, words[4]); !ok {
				return failed(ErrCount) // its count is the quantity
			}
		}
		if err != "" {
			return command.failedAt(i, length, err)
		}
	}
	lastWord, err := command.parseLastWord(words[5*length:], length)
	if err != "" {
		return failed(err)
	}
	seen := map[string]bool{}
	for i, funnel := range funnels {
		if seen[funnel.Key] {
			return command.failedAt(i, length, ErrTwice)
		}
		seen[funnel.Key] = true
	}

	tats := make([]*big.Int, length)
	for i, funnel := range funnels {
		var err Error
		if tats[i], err = funnel.Stored(get(funnel.Key)); err != "" {
			return command.failedAt(i, length, err)
		}
	}
	decisions, taken := make([]Decision, length), int64(0)
	for i, funnel := range funnels {
		var err Error
		if decisions[i], taken, err = funnel.Decide(command.Operation, tats[i], big.NewInt(now), lastWord); err != "" {
			return command.failedAt(i, length, err)
		}
	}
	return together(command, funnels, tats, decisions, taken, now)
}

// parseLastWord reads the last word of a call, which is there or not.
func (c Command) parseLastWord(word []string, length int) (number *big.Int, err Error) {
	number, ok := new(big.Int), true
	switch {
	case c.LastWord == "tat" && len(word) == 0:
		return nil, ""
	case c.LastWord == "tat":
		if number, ok = Integer(0, word[0]); !ok {
			return nil, ErrLastTAT
		}
		if length > 1 {
			return nil, ErrTATs
		}
	case len(word) > 0:
		if number, ok = Seconds(word[0]); !ok {
			return nil, ErrMaxWait
		}
		if number.Sign() > 0 && length > 1 {
			return nil, ErrSeveral
		}
	}
	return number, ""
}

// together is the call as a whole: limited if any row is, and the longest wait, or -1 if
// any row says -1. A reservation that is limited takes nothing anywhere.
func together(command Command, funnels []Funnel, tats []*big.Int, decisions []Decision, taken, now int64) Outcome {
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

	outcome := Outcome{Name: nameOf(command.Operation, asked, limited, wait, taken)}
	rows := make([]any, len(funnels))
	for i, decision := range decisions {
		if command.Operation == "reserve" && limited {
			decision = funnels[i].state(tats[i], big.NewInt(now), decision.Limited, big.NewInt(decision.Wait))
		}
		receipt := "0"
		if decision.TAT != tats[i].Int64() && command.Operation != "refund" {
			receipt = strconv.FormatInt(decision.TAT, 10)
		}
		rows[i] = []any{number(decision.Limited), decision.Limit, decision.Remaining,
			seconds(decision.Wait), seconds(decision.ResetAfter), receipt}
		switch {
		case decision.TAT == tats[i].Int64():
		case decision.TAT <= now:
			outcome.Writes = append(outcome.Writes, Write{Key: funnels[i].Key})
		default:
			outcome.Writes = append(outcome.Writes, set(funnels[i].Key, decision.TAT))
		}
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

// failedAt names the funnel where there are several.
func (c Command) failedAt(index, length int, err Error) Outcome {
	outcome := failed(err)
	outcome.Err = c.Worded(err)
	if length > 1 {
		outcome.Err = outcome.Err.Of(index + 1)
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
