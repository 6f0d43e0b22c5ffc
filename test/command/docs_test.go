// docs/commands.md shows what the module replies, and has every error and every field of INFO.

package command_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/rediscli"
	"funnel/internal/servertest"
	"funnel/test/pages/page"
	"funnel/test/pages/transcript"
)

func commandsPage(t *testing.T) string { return page.Read(t, "../../docs/commands.md") }

// TestDocs runs every transcript of docs/commands.md, each on an empty server. The server's clock
// stands still, except at lines such as "(1.5 seconds later)".
func TestDocs(t *testing.T) {
	server, client := servertest.Shared(t)
	clock, ran := servertest.ClockOf(client), 0
	for _, block := range page.Blocks(t, "../../docs/commands.md") {
		require.NoError(t, client.FlushAll(t.Context()).Err())
		now := servertest.Epoch
		clock.Set(t, now)
		wire := server.Wire(t)
		for _, entry := range transcript.Parse(block.Text) {
			if entry.Step != "" {
				var seconds float64
				_, err := fmt.Sscanf(entry.Step, "%g seconds later", &seconds)
				require.NoError(t, err, entry.Step)
				now = now.Add(time.Duration(seconds * float64(time.Second)))
				clock.Set(t, now)
				continue
			}
			words, err := transcript.Words(entry.Command)
			require.NoError(t, err)
			require.NotEmpty(t, words, "line %d: the block does not begin with a command", block.Line)
			require.Equal(t, entry.Reply, rediscli.Lines(wire.MustDo(t, words...)), "line %d and below: %s", block.Line, entry.Command)
			ran++
		}
	}
	require.Greater(t, ran, 20)
}

func TestDocsHaveEveryError(t *testing.T) {
	all := slices.Concat(contract.Outcomes, contract.SlotsErrors, contract.QuotaErrors)
	for _, outcome := range append(all, string(contract.ErrCount.Of(2)), "ERR capacity must be an integer from 1 to "+most+", not '0': for") {
		if outcome[0] <= 'Z' { // the others are no errors
			require.True(t, strings.Contains(commandsPage(t), strings.TrimPrefix(outcome, "ERR ")), "docs/commands.md has no %q", outcome)
		}
	}
}

// TestDocsHaveEveryFieldOfInfo: the page has the fields of INFO, and no others.
func TestDocsHaveEveryFieldOfInfo(t *testing.T) {
	_, client := servertest.Shared(t)
	info, err := client.Info(t.Context(), "funnel").Result()
	require.NoError(t, err)
	_, table, found := strings.Cut(commandsPage(t), "## INFO\n")
	require.True(t, found)
	inInfo := regexp.MustCompile(`(?m)^funnel_\w+`).FindAllString(info, -1)
	require.ElementsMatch(t, inInfo, regexp.MustCompile(`\bfunnel_\w+`).FindAllString(table, -1))
}
