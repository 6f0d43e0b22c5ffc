package contract

import (
	"fmt"
	"math/big"
	"strings"
)

// Funnels is CL.RESERVE, CL.PEEK, CL.CHARGE or CL.REFUND, which command names without
// "cl.", with the words behind its name; the rest is as for [Throttle].
func Funnels(command string, mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	length, rest := len(words)/5, len(words)%5
	if length < 1 || length > 64 || rest > 1 || rest == 1 && command != "reserve" {
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
		if decisions[i], err = funnel.ask(command, tats[i], big.NewInt(now), maxWait); err != "" {
			return failedAt(i, length, err)
		}
	}
	return together(command, funnels, tats, decisions, now)
}

func (f Funnel) ask(command string, tat, now, maxWait *big.Int) (Decision, Error) {
	switch command {
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
// any row says -1. A reservation that is limited pours nothing anywhere.
func together(command string, funnels []Funnel, tats []*big.Int, decisions []Decision, now int64) Outcome {
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

	outcome := Outcome{Name: nameOf(command, asked, limited, wait)}
	rows := make([]any, len(funnels))
	for i, decision := range decisions {
		if command == "reserve" && limited {
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
	return outcome
}

func nameOf(command string, asked, limited bool, wait int64) string {
	switch {
	case !asked || command == "peek":
		return Peeked
	case command == "charge":
		return Charged
	case command == "refund":
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

// failedAt names the funnel where there are several. WRONGTYPE stays as the server words
// it.
func failedAt(index, length int, err Error) Outcome {
	outcome := failed(err)
	if text, ours := strings.CutPrefix(string(err), "ERR "); ours && length > 1 {
		outcome.Err = Error(fmt.Sprintf("ERR funnel %d: %s", index+1, text))
	}
	return outcome
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
