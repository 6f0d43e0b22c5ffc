// docs/commands.md, docs/errors.md, docs/alternatives.md and docs/recipes.md show the replies of
// servers. docs/errors.md has every error, and docs/commands.md every field of INFO.
//
// Transcripts are blocks of pages: commands, and their replies as redis-cli shows them.
//
//	> INCR visits
//	(integer) 1      # a comment
//	(2 seconds later)
//
// A prompt may name the server, as in "redis> GET visits". A line of several words in parentheses
// is a step: time passes, or something else happens.

package command_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/errortext"
	"funnel/internal/rediscli"
	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// TestDocs runs every transcript of the pages, each on an empty server. The server's clock stands
// still, except at lines such as "(1.5 seconds later)".
func TestDocs(t *testing.T) {
	for name, least := range map[string]int{"commands.md": 20, "errors.md": 30, "alternatives.md": 20, "recipes.md": 14} {
		t.Run(name, func(t *testing.T) {
			server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
			ran := 0
			for _, block := range page.Blocks(t, "../../docs/"+name) {
				kind, _, _ := strings.Cut(block.Mark, ": ")
				if kind != "not run" {
					ran += runTranscript(t, server, block)
				}
			}
			require.Greater(t, ran, least)
		})
	}
}

// brackets are optional in replies on one line.
var brackets = strings.NewReplacer("[", "", "]", "")

// runTranscript returns how many commands it has run. After a prompt without a name, the reply is
// as redis-cli shows it in a terminal; after another prompt, it is on one line. After the prompt
// redis come the server's own commands. The server expires their keys by a clock that a test cannot
// set: the keys expire sooner instead. Commands for other software are left out.
func runTranscript(t *testing.T, server *servertest.Server, block page.Block) (ran int) {
	client := server.Client(t)
	wire := server.Wire(t)
	now := servertest.Epoch
	asked := ""
	clock := servertest.ClockOf(client)
	clock.Set(t, now)
	require.NoError(t, client.FlushAll(t.Context()).Err())
	for _, entry := range parseTranscript(block.Text) {
		if entry.step == "" {
			asked = entry.prompt
		}
		if asked != "" && asked != "funnel" && asked != "redis" {
			continue
		}
		if entry.step != "" {
			var passed float64
			var unit string
			_, err := fmt.Sscanf(entry.step, "%g %s later", &passed, &unit)
			require.NoError(t, err, entry.step)
			later := time.Duration(passed * float64(map[byte]time.Duration{'s': time.Second, 'm': time.Minute}[unit[0]]))
			if asked != "redis" {
				now = now.Add(later)
				clock.Set(t, now)
				continue
			}
			for _, key := range client.Keys(t.Context(), "*").Val() {
				expiry := servertest.ExpiryOf(t, client, key) - later.Milliseconds()
				require.NoError(t, client.Do(t.Context(), "pexpireat", key, expiry).Err())
			}
			continue
		}
		reply := wire.MustDo(t, wordsOf(t, entry.command)...)
		got := rediscli.Lines(reply)
		want := entry.reply
		if asked != "" {
			got, want = []string{brackets.Replace(fmt.Sprint(reply))}, []string{brackets.Replace(strings.Join(want, "\n"))}
		}
		require.Equal(t, want, got, "line %d and below: %s", block.Line, entry.command)
		ran++
	}
	return ran
}

func TestDocsHaveEveryError(t *testing.T) {
	errors := page.Read(t, "../../docs/errors.md")
	all := slices.Concat(contract.Outcomes, contract.SlotsErrors, contract.QuotaErrors)
	all = append(all, string(contract.ErrCount.Of(2)))
	all = append(all, "INVALID capacity must be an integer from 1 to "+maxInt+", not '0': for")
	for _, outcome := range all {
		if outcome[0] <= 'Z' { // an error: the names of other outcomes are in lower case
			text := strings.TrimPrefix(outcome, errortext.Invalid)
			require.True(t, strings.Contains(errors, text), "docs/errors.md has no %q", outcome)
		}
	}
}

// TestDocsHaveEveryFieldOfInfo: the page has all fields of INFO, and no other fields.
func TestDocsHaveEveryFieldOfInfo(t *testing.T) {
	client := servertest.StartClient(t)
	info, err := client.Info(t.Context(), "funnel").Result()
	require.NoError(t, err)
	_, table, found := strings.Cut(page.Read(t, "../../docs/commands.md"), "## INFO\n")
	require.True(t, found)
	inInfo := regexp.MustCompile(`(?m)^funnel_\w+`).FindAllString(info, -1)
	require.ElementsMatch(t, inInfo, regexp.MustCompile(`\bfunnel_\w+`).FindAllString(table, -1))
}

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
		match := commandLine.FindStringSubmatch(line)
		if match != nil {
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
