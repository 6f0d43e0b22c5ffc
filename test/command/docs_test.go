package command_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

func commandsPage(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	return string(content)
}

// TestDocs runs every transcript of docs/commands.md: blocks of lines "> command" with the
// reply as redis-cli shows it, each block on an empty server, whose clock stands still but
// for lines such as "(1.5 seconds later)".
func TestDocs(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	clock := servertest.ClockOf(client)
	later := regexp.MustCompile(`^\((\S+) seconds? later\)$`)
	comment := regexp.MustCompile(` {2,}# .*$`)

	blocks := regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(commandsPage(t), -1)
	ran := 0
	for _, block := range blocks {
		if !strings.Contains(block, "    > ") {
			continue
		}
		require.NoError(t, client.FlushAll(context.Background()).Err())
		now := servertest.Epoch
		clock.Set(t, now)
		wire := server.Wire(t)
		var got []string
		for line := range strings.Lines(block) {
			line = comment.ReplaceAllString(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "    "), "")
			if command, isCommand := strings.CutPrefix(line, "> "); isCommand {
				reply, err := wire.Do(strings.Fields(command)...)
				require.NoError(t, err)
				got = append(got, line)
				got = append(got, shown(reply)...)
				ran++
			} else if match := later.FindStringSubmatch(line); match != nil {
				pause, err := time.ParseDuration(match[1] + "s")
				require.NoError(t, err)
				now = now.Add(pause)
				clock.Set(t, now)
				got = append(got, line)
			}
		}
		want := comment.ReplaceAllString(strings.ReplaceAll("\n"+block, "\n    ", "\n"), "")
		want = regexp.MustCompile(`(?m) {2,}# .*$`).ReplaceAllString(want, "")
		require.Equal(t, strings.Trim(want, "\n"), strings.Join(got, "\n"))
	}
	require.Greater(t, ran, 20)
}

// shown are the lines in which redis-cli shows a reply.
func shown(reply any) (lines []string) {
	switch reply := reply.(type) {
	case servertest.ErrorReply:
		return []string{"(error) " + string(reply)}
	case int64:
		return []string{fmt.Sprintf("(integer) %d", reply)}
	case nil:
		return []string{"(nil)"}
	case []any:
		for i, element := range reply {
			prefix := strconv.Itoa(i+1) + ") "
			for n, line := range shown(element) {
				if n > 0 {
					prefix = strings.Repeat(" ", len(prefix))
				}
				lines = append(lines, prefix+line)
			}
		}
		return lines
	}
	return []string{fmt.Sprintf("%q", reply)}
}

// TestDocsHaveEveryError, in its own words.
func TestDocsHaveEveryError(t *testing.T) {
	for _, message := range []string{
		"wrong number of arguments for", notCapacity, notCount, notPeriod, notQuantity, notInterval, notTolerance, notIncrement,
		notMaxWait, notSeveral, notTwice, notFunnel, notTAT, notType, "with 'compat redis-cell'", "ERR funnel 2: ",
	} {
		require.True(t, strings.Contains(commandsPage(t), message), "docs/commands.md has no %q", message)
	}
}

// TestDocsHaveEveryFieldOfInfo, and no others.
func TestDocsHaveEveryFieldOfInfo(t *testing.T) {
	info, err := servertest.StartClient(t).Info(context.Background(), "funnel").Result()
	require.NoError(t, err)
	_, table, found := strings.Cut(commandsPage(t), "## INFO\n")
	require.True(t, found)
	names := func(text, pattern string) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		return names
	}
	require.ElementsMatch(t, names(info, `(?m)^(funnel_\w+):`), names(table, "`(funnel_\\w+)`"))
}
