// docs/alternatives.md shows what funnel replies, and a plain Redis beside it. Servers reply the same.
// Lines that ask redis-cell or redis_rate are not run.

package pages_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
	"funnel/test/pages/transcript"
)

const (
	funnel    = "funnel"
	plain     = "redis" // without any module
	onReplica = " replica"
)

// TestAlternatives runs each block of the page, on new servers. The lines of each server are run
// separately.
func TestAlternatives(t *testing.T) {
	servertest.NeedSince7(t, "EXPIRE with NX")
	blocks := 0
	for _, block := range page.Blocks(t, "../../docs/alternatives.md") {
		kind, name, _ := strings.Cut(block.Mark, ": ")
		if kind == "not run" {
			continue
		}
		require.Equal(t, "alternatives", name, "the mark of the block in line %d", block.Line)
		blocks++
		byServer := byServer(t, transcript.Parse(block.Text))
		require.NotEmpty(t, byServer, "the block in line %d", block.Line)
		for name, entries := range byServer {
			t.Run(fmt.Sprintf("line %d, %s", block.Line, name), func(t *testing.T) {
				t.Parallel()
				scene := start(t, name, entries)
				for _, entry := range entries {
					met := scene.step(t, entry)
					require.Len(t, met, len(entry.Reply), "%s%s: %q", entry.Command, entry.Step, met)
					for i, shown := range entry.Reply {
						requireSame(t, shown, met[i])
					}
				}
			})
		}
	}
	require.Greater(t, blocks, 4)
}

// byServer sorts entries by their server. It leaves out entries that ask other software. A step belongs
// to the server of the entry before it.
func byServer(t *testing.T, all []transcript.Entry) map[string][]transcript.Entry {
	entries, name := map[string][]transcript.Entry{}, ""
	for _, entry := range all {
		if entry.Command != "" {
			name = strings.TrimSuffix(entry.Prompt, onReplica)
		}
		switch name {
		case funnel, plain:
			entries[name] = append(entries[name], entry)
		case "redis-cell", "go": // Go with redis_rate
		default:
			t.Fatalf("the page asks %q, which is none of its servers", name)
		}
	}
	return entries
}

// An instant is a number that depends on the clock: nine digits or more, and perhaps a fraction. Instants
// in the same unit have the same number of digits.
var instant = regexp.MustCompile(`\d{9,}(\.\d+)?`)

// numbers replaces each instant by its number of digits.
func numbers(line string) string {
	return instant.ReplaceAllStringFunc(line, func(number string) string {
		whole, _, _ := strings.Cut(number, ".")
		return fmt.Sprintf("(%d digits)", len(whole))
	})
}

// requireSame requires that a server replied the line of the page, on which "..." stands for anything.
func requireSame(t *testing.T, shown, met string) {
	if strings.Contains(shown, "...") {
		require.Regexp(t, "^"+strings.ReplaceAll(regexp.QuoteMeta(shown), `\.\.\.`, ".*")+"$", met)
		return
	}
	require.Equal(t, numbers(shown), numbers(met))
}

// A scene is a server that a block of the page asks, and its replica.
type scene struct {
	name    string
	server  *servertest.Server
	replica *servertest.Server
	wires   map[string]*servertest.Wire

	// now is the clock of funnel, which stands still between steps of the page.
	now time.Time
}

// start starts the server of that name, and a replica if the entries ask one.
func start(t *testing.T, name string, entries []transcript.Entry) *scene {
	var module string
	if name == funnel {
		module = servertest.DebugModule(t)
	}
	s := &scene{name: name, wires: map[string]*servertest.Wire{}}
	s.server = servertest.Start(t, servertest.WithLog(module, "always"))
	for _, entry := range entries {
		if strings.HasSuffix(entry.Prompt, onReplica) && s.replica == nil {
			s.replica = servertest.StartReplica(t, s.server, servertest.Options{Module: module})
		}
	}
	if name == funnel {
		s.now = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) // periods of quotas end at midnight
		servertest.ClockOf(s.server.Client(t)).Set(t, s.now)
	}
	return s
}

// step runs an entry, and returns what the page shows of it.
func (s *scene) step(t *testing.T, entry transcript.Entry) (shown []string) {
	t.Helper()
	switch {
	case entry.Command != "":
		words, err := transcript.Words(entry.Command)
		require.NoError(t, err)
		return []string{s.ask(t, entry.Prompt, words)}
	case entry.Step == "the server restarts":
		s.server.Stop()
		s.server.Restart(t)
		delete(s.wires, s.name)
	case entry.Step == "the append-only file": // the commands that replicas get
		for _, words := range servertest.ReadAppendOnlyFile(t, s.server) {
			if words[0] != "SELECT" {
				shown = append(shown, strings.Join(words, " "))
			}
		}
	case strings.HasSuffix(entry.Step, " later"):
		s.pass(t, entry.Step)
	default:
		t.Fatalf("the page has %q, which is none of its steps", entry.Step)
	}
	return shown
}

// ask sends a command to the server, or to the replica once it has what was written.
func (s *scene) ask(t *testing.T, prompt string, words []string) string {
	server := s.server
	if strings.HasSuffix(prompt, onReplica) {
		server = s.replica
		servertest.AwaitReplicas(t, s.server.Client(t), s.replica.Client(t))
	}
	if s.wires[prompt] == nil {
		s.wires[prompt] = server.Wire(t)
	}
	if words[0] == "--eval" { // redis-cli's option, then FILE KEY , ARGUMENT...
		script, err := os.ReadFile(filepath.Join("../..", words[1]))
		require.NoError(t, err)
		require.Equal(t, ",", words[3])
		words = append([]string{"EVAL", string(script), "1", words[2]}, words[4:]...)
	}
	return transcript.Piped(s.wires[prompt].MustDo(t, words...))
}

// pass lets minutes pass: by the clock of the debug module, or, in a plain Redis, by moving the
// expiry of the keys nearer.
func (s *scene) pass(t *testing.T, step string) {
	var minutes time.Duration
	_, err := fmt.Sscanf(step, "%d minute", &minutes)
	require.NoError(t, err)
	client, ctx := s.server.Client(t), context.Background()
	if s.name == funnel {
		s.now = s.now.Add(minutes * time.Minute)
		servertest.ClockOf(client).Set(t, s.now)
		return
	}
	for _, key := range client.Keys(ctx, "*").Val() {
		expiry := servertest.ExpiryOf(t, client, key) - (minutes * time.Minute).Milliseconds()
		require.NoError(t, client.Do(ctx, "pexpireat", key, expiry).Err())
	}
}
