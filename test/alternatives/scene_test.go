package alternatives_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/transcript"
)

// The prompts of the page.
const (
	funnel    = "funnel"
	redisCell = "redis-cell"
	plain     = "redis" // without any module
	onReplica = " replica"
)

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
	t.Helper()
	var module string
	switch name {
	case funnel:
		module = servertest.DebugModule(t)
	case redisCell:
		if module = os.Getenv("FUNNEL_PEER"); module == "" {
			t.Skip("needs redis-cell: FUNNEL_PEER=/path/of/libredis_cell.so")
		}
	case plain:
	default:
		t.Fatalf("the page asks %q, which is none of its servers", name)
	}
	s := &scene{name: name, wires: map[string]*servertest.Wire{}}
	s.server = servertest.Start(t, servertest.Options{
		Module: module,
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	})
	for _, entry := range entries {
		if strings.HasSuffix(entry.Prompt, onReplica) && s.replica == nil {
			s.replica = servertest.StartReplica(t, s.server, servertest.Options{Module: module})
		}
	}
	if name == funnel {
		s.now = time.Now()
		servertest.ClockOf(s.server.Client(t)).Set(t, s.now)
	}
	return s
}

// step runs an entry, and returns what the page shows of it.
func (s *scene) step(t *testing.T, entry transcript.Entry) []string {
	t.Helper()
	switch {
	case entry.Command != "":
		words, err := transcript.Words(entry.Command)
		require.NoError(t, err)
		return []string{s.ask(t, entry.Prompt, words)}
	case entry.Step == "the server has ended":
		state, err := s.server.Wait()
		require.NoError(t, err)
		require.True(t, state.Sys().(syscall.WaitStatus).Signaled(), "it ended by a signal: %v", state)
	case entry.Step == "the server restarts":
		s.server.Stop()
		s.server.Restart(t)
		delete(s.wires, s.name)
	case entry.Step == "the append-only file":
		return s.appendOnlyFile(t)
	case strings.HasSuffix(entry.Step, " later"):
		s.pass(t, entry.Step)
	default:
		t.Fatalf("the page has %q, which is none of its steps", entry.Step)
	}
	return nil
}

// ask sends a command to the server, or to the replica once it has what was written.
func (s *scene) ask(t *testing.T, prompt string, words []string) string {
	t.Helper()
	server := s.server
	if strings.HasSuffix(prompt, onReplica) {
		server = s.replica
		servertest.AwaitReplicas(t, s.server.Client(t), s.replica.Client(t))
	}
	if s.wires[prompt] == nil {
		s.wires[prompt] = server.Wire(t)
	}
	reply, err := s.wires[prompt].Do(words...)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return "Error: Server closed the connection"
	}
	require.NoError(t, err)
	return transcript.Piped(reply)
}

// appendOnlyFile returns the commands that the file got, which are those that replicas get.
func (s *scene) appendOnlyFile(t *testing.T) (lines []string) {
	t.Helper()
	for _, words := range servertest.ReadAppendOnlyFile(t, s.server) {
		if words[0] != "SELECT" {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}

// pass lets minutes pass: by the clock of the debug module, or, for what goes by nothing but
// the expiry of its keys, by moving that nearer.
func (s *scene) pass(t *testing.T, step string) {
	t.Helper()
	var minutes time.Duration
	_, err := fmt.Sscanf(step, "%d minute", &minutes)
	require.NoError(t, err)
	client, ctx := s.server.Client(t), context.Background()
	switch s.name {
	case funnel:
		s.now = s.now.Add(minutes * time.Minute)
		servertest.ClockOf(client).Set(t, s.now)
	case plain:
		for _, key := range client.Keys(ctx, "*").Val() {
			expiry := servertest.ExpiryOf(t, client, key) - (minutes * time.Minute).Milliseconds()
			require.NoError(t, client.Do(ctx, "pexpireat", key, expiry).Err())
		}
	default:
		t.Fatalf("%s has no clock to set", s.name)
	}
}
