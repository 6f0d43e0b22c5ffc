// Package alternatives_test holds docs/alternatives.md to its word: what the page says of
// other ways to limit a rate is run against them.
package alternatives_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
	"funnel/test/transcript"
)

// name stands in the mark of the blocks that are run: "test: alternatives".
const name = "alternatives"

// TestPage runs each block of the page, on new servers. The lines of one server are run by
// themselves, so that those of redis-cell can be skipped where it is not at hand.
func TestPage(t *testing.T) {
	servertest.NeedSince7(t, "EXPIRE with NX")
	blocks := 0
	for _, block := range page.Blocks(t, "../../docs/alternatives.md") {
		if strings.HasPrefix(block.Mark, "not run: ") {
			continue
		}
		require.Equal(t, "test: "+name, block.Mark, "the block in line %d is neither run nor says why", block.Line)
		blocks++
		names, entries := byServer(transcript.Parse(block.Text))
		require.NotEmpty(t, names, "line %d", block.Line)
		for _, name := range names {
			t.Run(fmt.Sprintf("line %d, %s", block.Line, name), func(t *testing.T) {
				t.Parallel()
				run(t, name, entries[name])
			})
		}
	}
	require.Greater(t, blocks, 4)
}

// byServer sorts entries by the server that they are about; a step is about that of the
// entry before. Names are in the order of the page.
func byServer(all []transcript.Entry) (names []string, entries map[string][]transcript.Entry) {
	entries = map[string][]transcript.Entry{}
	name := ""
	for _, entry := range all {
		if entry.Command != "" {
			name = strings.TrimSuffix(entry.Prompt, onReplica)
			if name == goCalls {
				name = plain
			}
		}
		if entries[name] == nil {
			names = append(names, name)
		}
		entries[name] = append(entries[name], entry)
	}
	return names, entries
}

func run(t *testing.T, name string, entries []transcript.Entry) {
	scene := start(t, name, entries)
	var replies replies
	for _, entry := range entries {
		got := scene.step(t, entry)
		require.NoError(t, replies.compare(entry.Reply, got), "%s%s", entry.Command, entry.Step)
	}
	require.NoError(t, replies.ordered())
}
