// Package command_test tests what the commands reply, store and refuse, and how servers describe
// them. Its tests go through one table: a new command is a row here.
package command_test

import (
	"fmt"
	"slices"
	"strings"

	"funnel/internal/contract"
)

const (
	funnel = "key capacity count period quantity"
	slots  = "key limit SLOTS ttl holder"
	quota  = "key limit UNTIL until quantity"
	window = "key limit UNTIL +seconds quantity"
	row    = "(" + funnel + "|" + slots + "|" + quota + "|" + window + ")"
	back   = "(" + funnel + "|" + slots + "|" + quota + ")" // a row of CL.REFUND
)

var commands = []command{
	{"cl.throttle", "key capacity count period [quantity]", "write denyoom fast", [4]int{-5, 1, 1, 1}, ""},
	{"cl.reserve", row + " [" + row + " ...] [max_wait]", "write denyoom fast", [4]int{-6, 1, -2, 5}, ""},
	{"cl.take", "(" + funnel + "|" + quota + "|" + window + ")", "write denyoom fast", [4]int{6, 1, 1, 1},
		contract.ErrIncrement},
	{"cl.peek", row + " [" + row + " ...]", "readonly fast", [4]int{-6, 1, -1, 5}, ""},
	{"cl.charge", row + " [" + row + " ...]", "write denyoom fast", [4]int{-6, 1, -1, 5}, ""},
	{"cl.refund", back + " [" + back + " ...] [tat]", "write fast", [4]int{-6, 1, -2, 5}, contract.ErrTAT},
}

// A command is what COMMAND DOCS and COMMAND INFO say about it. From that, the tests derive the
// calls that it must accept, and who may make them.
type command struct {
	name, syntax, flags string
	positions           [4]int         // arity, first key, last key, step
	without             contract.Error // an error of other commands that this command never replies
}

func (c command) is(flag string) bool { return slices.Contains(strings.Fields(c.flags), flag) }

// maxRows returns how many rows a call may have.
func (c command) maxRows() int {
	if strings.Contains(c.syntax, "...") {
		return 64
	}
	return 1
}

// sound replaces the words of a syntax by the values of a call that is allowed.
var sound = strings.NewReplacer("capacity", "2", "count", "1", "period", "1000", "quantity", "1", "max_wait", "0",
	"tat", "0", "limit", "2", "ttl", "1000", "holder", "me", "until", "5000000000", "+seconds", "+1000", "(", "", ")", "")

// calls returns a call of these keys for each kind of row that the command takes, without its
// optional words, and another one with them.
func (c command) calls(keys ...string) (lines []string) {
	parts := strings.Split(strings.TrimSuffix(c.syntax, "]"), " [")
	for form := range strings.SplitSeq(parts[0], "|") {
		line, last := c.name, parts[len(parts)-1]
		for _, key := range keys {
			line += strings.Replace(" "+sound.Replace(form), "key", key, 1)
		}
		lines = append(lines, line)
		isError := last == "tat" && !strings.Contains(form, "count")
		if len(parts) > 1 && !strings.HasSuffix(last, "...") && !isError {
			lines = append(lines, line+" "+sound.Replace(last))
		}
	}
	return lines
}

// names returns the names of the commands that have a flag, or of all commands if flag is empty.
func names(flag string) (names []string) {
	for _, command := range commands {
		if flag == "" || command.is(flag) {
			names = append(names, command.name)
		}
	}
	return names
}

func keyNames(count int) (keys []string) {
	for i := range count {
		keys = append(keys, fmt.Sprint("key:", i))
	}
	return keys
}
