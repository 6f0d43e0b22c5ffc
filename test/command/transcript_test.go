// Transcripts are blocks of pages: commands, and their replies as redis-cli shows them.
//
//	> INCR visits
//	(integer) 1      # a comment
//	(2 seconds later)
//
// A prompt may name the server, as in "redis> GET visits". A line of several words in parentheses is a step: time
// passes, or something else happens.

package command_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An entry of a transcript is a command with its reply, or a step.
type entry struct {
	prompt, command string   // empty in a step
	step            string   // without the parentheses
	reply           []string // the lines that follow
}

var (
	commandLine = regexp.MustCompile(`^([a-z-]*)> (.*)$`)
	stepLine    = regexp.MustCompile(`^\(([^()]+ [^()]+)\)$`)
	comment     = regexp.MustCompile(` {2,}# .*$`)
)

func parseTranscript(text string) (entries []entry) {
	for line := range strings.Lines(text) {
		line = comment.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
		if match := commandLine.FindStringSubmatch(line); match != nil {
			entries = append(entries, entry{prompt: match[1], command: match[2]})
		} else if match := stepLine.FindStringSubmatch(line); match != nil {
			entries = append(entries, entry{step: match[1]})
		} else if last := len(entries) - 1; last >= 0 {
			entries[last].reply = append(entries[last].reply, line)
		}
	}
	return entries
}

// wordsOf splits a command as redis-cli does: by spaces, except for text in double quotes.
func wordsOf(t *testing.T, command string) (words []string) {
	for _, word := range regexp.MustCompile(`"(?:\\.|[^"\\])*"|\S+`).FindAllString(command, -1) {
		if word[0] == '"' {
			unquoted, err := strconv.Unquote(word)
			require.NoError(t, err, command)
			word = unquoted
		}
		words = append(words, word)
	}
	return words
}
