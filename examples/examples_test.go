// Package examples_test runs the examples, each as a process, against a real server.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
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
	output, err := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "./...").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the examples: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// A process is an example that runs. Its output is in files: stdout is complete once the process
// has ended.
type process struct {
	*exec.Cmd
	stdout, stderr string // paths
	ended          chan struct{}
	err            error // how it has ended
}

// start starts an example against the server. The end of the test kills it.
func start(t *testing.T, name string, server *servertest.Server, arguments ...string) *process {
	folder := t.TempDir()
	p := &process{
		stdout: filepath.Join(folder, "stdout"),
		stderr: filepath.Join(folder, "stderr"),
		ended:  make(chan struct{}),
	}
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

// wait waits for the end of the process, and returns its output and its error.
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

// tokensUsed returns how many tokens the answers of a tenant used, and requires the number of
// answers.
func tokensUsed(t *testing.T, output, tenant string, answers int) (tokens int) {
	matches := regexp.MustCompile(tenant+`, request \d: (\d+) tokens used`).FindAllStringSubmatch(output, -1)
	require.Len(t, matches, answers, output)
	for _, match := range matches {
		used, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		tokens += used
	}
	return tokens
}

// requireBooked requires that a tenant has used so much of its budgets, and that it holds no slot.
func requireBooked(t *testing.T, server *servertest.Server, tenant string, requests, tokens int) {
	key := "example:llm:{" + tenant + "}:"
	client := server.Client(t)
	result, err := limiter.New(client).Peek(t.Context(), key+"requests", limiter.PerMinute(60).WithCapacity(10))
	require.NoError(t, err)
	require.Equal(t, 10-requests, result.Remaining)
	result, err = limiter.New(client).Peek(t.Context(), key+"tokens", limiter.PerMinute(30_000).WithCapacity(7_000))
	require.NoError(t, err)
	require.Equal(t, 7_000-tokens, result.Remaining)
	result, err = limiter.New(client).Peek(t.Context(), key+"month", limiter.Monthly(1_000_000, time.UTC))
	require.NoError(t, err)
	require.Equal(t, 1_000_000-tokens, result.Remaining)
	require.Zero(t, client.Exists(t.Context(), key+"slots").Val())
}

// By script, on a clock that runs: a tenant waits for slots that another process holds, and for
// tokens that its other requests give back.
func TestLLM(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	slots := "example:llm:{chatty}:slots"
	client := server.Client(t)
	later := float64(time.Now().Add(time.Hour).UnixMilli())
	for holder := range 5 {
		require.NoError(t, client.ZAdd(t.Context(), slots, redis.Z{Score: later, Member: holder}).Err())
	}
	p := start(t, "llm", server, "-token", "100us", "-requests", "4") // the model answers in at most 0.1 s
	servertest.Eventually(t, "greedy does not wait for chatty", func() bool {
		return strings.Count(printed(t, p.stdout), "given back") == 4
	})
	require.NotContains(t, printed(t, p.stdout), "chatty", "it waits for a slot")
	require.NoError(t, client.ZRem(t.Context(), slots, 3).Err())
	output, err := p.wait(t)
	require.NoError(t, err)
	tokensUsed(t, output, "chatty", 4)
	tokensUsed(t, output, "greedy", 4)
	require.EqualValues(t, 4, client.ZCard(t.Context(), slots).Val())
}

// An answer ends with the piece that overspends the month.
func TestLLMEndsWithTheMonth(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	month := limiter.Monthly(1_000_000, time.UTC)
	_, err := limiter.New(server.Client(t)).Charge(t.Context(), "example:llm:{chatty}:month", month, 1_000_000-60)
	require.NoError(t, err)
	p := start(t, "llm", server, "-token", "100us", "-requests", "1")
	output, err := p.wait(t)
	require.Error(t, err)
	require.Contains(t, printed(t, p.stderr), "the answer ends early, because the month is used")
	require.LessOrEqual(t, tokensUsed(t, output, "chatty", 1), 50+200, "the prompt and a piece")
}

// Of seven requests, five hold a slot while the model answers, or fewer if there are not enough
// tokens. Ctrl-C gives slots and tokens back.
func TestLLMEndsOnInterrupt(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	servertest.ClockOf(server.Client(t)).Set(t, servertest.Epoch)
	p := start(t, "llm", server, "-token", "1m")
	servertest.Eventually(t, "five and three requests are in flight", func() bool {
		output := printed(t, p.stdout)
		return strings.Count(output, "chatty") == 5 && strings.Count(output, "greedy") == 3 &&
			strings.Contains(output, "0 slots, 5 requests, 1750 tokens remain") &&
			strings.Contains(output, "2 slots, 7 requests, 400 tokens remain") &&
			servertest.InfoField(t, server.Client(t), "funnel", "funnel_limited") >= 2 // the first of each who waits
	})
	require.EqualValues(t, 5, server.Client(t).ZCard(t.Context(), "example:llm:{chatty}:slots").Val())
	output := p.interrupt(t)
	requireBooked(t, server, "chatty", 5, tokensUsed(t, output, "chatty", 5))
	requireBooked(t, server, "greedy", 3, tokensUsed(t, output, "greedy", 3))
}
