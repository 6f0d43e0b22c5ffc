// Package examples_test runs the examples, each as a process, against a real server.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// A process is an example that runs. What it prints is in files: stdout is complete when
// it has ended.
type process struct {
	*exec.Cmd
	stdout, stderr string // paths
	ended          chan struct{}
	err            error // how it has ended
}

// start starts an example against the server; it is killed when the test ends.
func start(t *testing.T, name string, server *servertest.Server, arguments ...string) *process {
	folder := t.TempDir()
	p := &process{stdout: filepath.Join(folder, "stdout"), stderr: filepath.Join(folder, "stderr"), ended: make(chan struct{})}
	stdout, err := os.Create(p.stdout)
	require.NoError(t, err)
	stderr, err := os.Create(p.stderr)
	require.NoError(t, err)
	p.Cmd = exec.Command(filepath.Join(programs, name), append([]string{"-redis", server.Addr()}, arguments...)...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Cmd.Stdout, p.Cmd.Stderr = stdout, stderr
	require.NoError(t, p.Cmd.Start())
	go func() {
		p.err = p.Cmd.Wait()
		stdout.Close()
		stderr.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s has printed:\n%s\nand to stderr:\n%s", name, printed(t, p.stdout), printed(t, p.stderr))
		}
	})
	return p
}

func printed(t *testing.T, path string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// wait waits for the end of the process, and returns what it has printed and how it ended.
func (p *process) wait(t *testing.T) (output string, err error) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(servertest.Patience):
		t.Fatal("the example does not end")
	}
	return printed(t, p.stdout), p.err
}

// interrupt sends SIGINT, as Ctrl-C does, and requires exit code 0.
func (p *process) interrupt(t *testing.T) string {
	require.NoError(t, p.Process.Signal(os.Interrupt))
	output, err := p.wait(t)
	require.NoError(t, err)
	return output
}

// find waits for a line on stderr, and returns the groups of the pattern.
func (p *process) find(t *testing.T, pattern string) (groups []string) {
	servertest.Eventually(t, "stderr has "+pattern, func() bool {
		groups = regexp.MustCompile(pattern).FindStringSubmatch(printed(t, p.stderr))
		return groups != nil
	})
	return groups
}

func startAtOneInstant(t *testing.T) *servertest.Server {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	servertest.ClockOf(server.Client(t)).Set(t, servertest.Epoch)
	return server
}
