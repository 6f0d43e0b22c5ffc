// Package examples_test runs the examples, each as a process, against a real server.
package examples_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// programs is the folder of the built examples.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "funnel-examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	programs = folder
	if output, err := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the examples: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// A process is an example that runs.
type process struct {
	*exec.Cmd
	stdout bytes.Buffer // complete when the process has ended
	stderr *lines
	ended  chan struct{}
	err    error // how it has ended
}

// start starts an example against the server; it is killed when the test ends.
func start(t *testing.T, name string, server *servertest.Server, arguments ...string) *process {
	t.Helper()
	p := &process{stderr: new(lines), ended: make(chan struct{})}
	p.Cmd = exec.Command(filepath.Join(programs, name), append([]string{"-redis", server.Addr()}, arguments...)...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Cmd.Stdout, p.Cmd.Stderr = &p.stdout, p.stderr
	require.NoError(t, p.Cmd.Start())
	go func() {
		p.err = p.Cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s has printed:\n%s\nand to stderr:\n%s", name, p.stdout.String(), p.stderr)
		}
	})
	return p
}

// wait waits for the end of the process, and requires exit code 0.
func (p *process) wait(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.end(t))
	return p.stdout.String()
}

// end waits for the end of the process, with any exit code.
func (p *process) end(t *testing.T) error {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(servertest.Patience):
		t.Fatal("the example does not end")
	}
	return p.err
}

// interrupt sends SIGINT, as Ctrl-C does.
func (p *process) interrupt(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.Process.Signal(os.Interrupt))
	return p.wait(t)
}

// lines is what a process prints while it runs.
type lines struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.Write(text)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.String()
}

// find waits for a line that contains the text.
func (p *process) find(t *testing.T, text string) string {
	t.Helper()
	var found string
	require.Eventually(t, func() bool {
		scanner := bufio.NewScanner(strings.NewReader(p.stderr.String()))
		for scanner.Scan() {
			if strings.Contains(scanner.Text(), text) {
				found = scanner.Text()
			}
		}
		return found != ""
	}, servertest.Patience, 5*time.Millisecond, "nothing printed contains %q", text)
	return found
}

// startAtOneInstant starts a server whose module sees the clock standing still, far
// ahead of the real one, by which the server expires keys.
func startAtOneInstant(t *testing.T) *servertest.Server {
	t.Helper()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, server.Client(t).Do(t.Context(), "funnel.debug", "clock", now.UnixNano()).Err())
	return server
}
