// Package alternatives_test runs docs/alternatives.md: what the page says about other ways to
// limit a rate.
package alternatives_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
	"funnel/test/transcript"
)

// TestPage runs each block of the page, on new servers. The lines of each server are run
// separately: those of redis-cell are skipped where it is not at hand.
func TestPage(t *testing.T) {
	servertest.NeedSince7(t, "EXPIRE with NX")
	blocks := 0
	for _, block := range page.Blocks(t, "../../docs/alternatives.md") {
		kind, name, _ := strings.Cut(block.Mark, ": ")
		if kind == "not run" {
			continue
		}
		require.Equal(t, "alternatives", name, "the mark of the block in line %d", block.Line)
		blocks++
		for name, entries := range byServer(transcript.Parse(block.Text)) {
			t.Run(fmt.Sprintf("line %d, %s", block.Line, name), func(t *testing.T) {
				t.Parallel()
				run(t, name, entries)
			})
		}
	}
	require.Greater(t, blocks, 4)
}

// byServer sorts entries by the server that they are about; a step is about that of the
// entry before.
func byServer(all []transcript.Entry) map[string][]transcript.Entry {
	entries, name := map[string][]transcript.Entry{}, ""
	for _, entry := range all {
		if entry.Command != "" {
			name = strings.TrimSuffix(entry.Prompt, onReplica)
		}
		entries[name] = append(entries[name], entry)
	}
	return entries
}

func run(t *testing.T, name string, entries []transcript.Entry) {
	scene := start(t, name, entries)
	var instants []pair
	for _, entry := range entries {
		met := scene.step(t, entry)
		require.Len(t, met, len(entry.Reply), "%s%s: %q", entry.Command, entry.Step, met)
		for i, shown := range entry.Reply {
			instants = append(instants, requireSame(t, shown, met[i])...)
		}
	}
	// The same instant where the page has the same, a later one where it has a later one.
	for i, a := range instants {
		for _, b := range instants[:i] {
			if numbers(a.shown) == numbers(b.shown) {
				require.Equal(t, strings.Compare(a.shown, b.shown), strings.Compare(a.met, b.met), "the page has %s and %s, the server %s and %s", a.shown, b.shown, a.met, b.met)
			}
		}
	}
}

// An instant is a number that depends on the clock: nine digits or more.
var instant = regexp.MustCompile(`\d{9,}`)

type pair struct{ shown, met string }

// numbers puts the number of digits in the place of each instant.
func numbers(line string) string {
	return instant.ReplaceAllStringFunc(line, func(number string) string {
		return fmt.Sprintf("(%d digits)", len(number))
	})
}

// requireSame requires that a line is the one on the page, but for instants, which it returns.
func requireSame(t *testing.T, shown, met string) (instants []pair) {
	t.Helper()
	require.Equal(t, numbers(shown), numbers(met))
	mets := instant.FindAllString(met, -1)
	for i, number := range instant.FindAllString(shown, -1) {
		instants = append(instants, pair{number, mets[i]})
	}
	return instants
}
