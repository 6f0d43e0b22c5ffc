// Package transcript reads transcripts, which are blocks of documentation pages: commands,
// and their replies as redis-cli shows them.
//
//	> INCR visits
//	(integer) 1      # a comment
//	(2 seconds later)
//
// A prompt may name the server in one word or two, as in "replica> GET visits". A line in
// parentheses of several words is a step: something that happens beside the commands.
package transcript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An Entry is a command or a step, with what it replies.
type Entry struct {
	// Prompt is what stands before the ">", often nothing.
	Prompt string

	// Command is as it is typed. It is empty in a step.
	Command string

	// Step is the line without its parentheses. It is empty in a command.
	Step string

	// Reply holds the lines that follow.
	Reply []string
}

var (
	command = regexp.MustCompile(`^([a-z-]*(?: [a-z]+)?)> (.*)$`)
	step    = regexp.MustCompile(`^\(([^()]+ [^()]+)\)$`)
	comment = regexp.MustCompile(` {2,}# .*$`)
)

// Parse returns the entries of a block, or none if it has no commands. Lines before the
// first command are the reply of an entry with neither command nor step.
func Parse(text string) (entries []Entry) {
	commands := 0
	for line := range strings.Lines(text) {
		line = comment.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
		if match := command.FindStringSubmatch(line); match != nil {
			entries = append(entries, Entry{Prompt: match[1], Command: match[2]})
			commands++
		} else if match := step.FindStringSubmatch(line); match != nil {
			entries = append(entries, Entry{Step: match[1]})
		} else {
			if len(entries) == 0 {
				entries = append(entries, Entry{})
			}
			last := &entries[len(entries)-1]
			last.Reply = append(last.Reply, line)
		}
	}
	if commands == 0 {
		return nil
	}
	return entries
}

// Words splits a command as redis-cli does: by spaces, but for what is in double quotes.
func Words(command string) (words []string, err error) {
	rest := strings.TrimSpace(command)
	for rest != "" {
		word := strings.Fields(rest)[0]
		length := len(word)
		if rest[0] == '"' {
			if word, err = strconv.QuotedPrefix(rest); err != nil {
				return nil, fmt.Errorf("%q: %w", rest, err)
			}
			length = len(word)
			if word, err = strconv.Unquote(word); err != nil {
				return nil, err
			}
		}
		words = append(words, word)
		rest = strings.TrimSpace(rest[length:])
	}
	return words, nil
}

// Piped returns what redis-cli prints when its output is no terminal, on one line.
func Piped(reply any) string {
	elements, isArray := reply.([]any)
	if !isArray {
		elements = []any{reply}
	}
	var words []string
	for _, element := range elements {
		switch element := element.(type) {
		case []any:
			words = append(words, Piped(element))
		case nil:
			words = append(words, "")
		default:
			words = append(words, fmt.Sprint(element))
		}
	}
	return strings.Join(words, " ")
}
