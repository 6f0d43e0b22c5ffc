package docs_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// TestREADMEsAreShortAndShowTheSame: a reader of either runs what is tested.
func TestREADMEsAreShortAndShowTheSame(t *testing.T) {
	require.LessOrEqual(t, strings.Count(read(t, "README.md"), "\n"), 115)
	commands := func(path string) (commands []page.Block) {
		for _, block := range page.Blocks(t, filepath.Join(top, path)) {
			if strings.HasPrefix(block.Mark, "test: ") {
				block.Text = regexp.MustCompile(`(?m) +(#|//) .*$`).ReplaceAllString(block.Text, "")
				commands = append(commands, block)
			}
		}
		return commands
	}
	require.NotEmpty(t, commands("README.md"))
	require.Equal(t, commands("README.md"), commands("README.zh-CN.md"))
}

// TestFiguresAreThoseOfThePage: instructions per call are measured into docs/performance.md,
// and copied elsewhere by hand.
func TestFiguresAreThoseOfThePage(t *testing.T) {
	measured := read(t, "docs/performance.md")
	figures := regexp.MustCompile(`\b\d{1,3},\d{3}\b`).FindAllString(read(t, "docs/moving-from-redis-rate.md"), -1)
	require.Greater(t, len(figures), 2)
	for _, figure := range figures {
		require.Contains(t, measured, "| "+figure+" |", "instructions that were not measured")
	}
	ratio := regexp.MustCompile(`(?m)^\| CL.THROTTLE \| [\d,]+ .* ([\d.]+) \|$`).FindStringSubmatch(measured)
	require.NotNil(t, ratio)
	require.Contains(t, read(t, "README.md"), " "+ratio[1]+" times")
	require.Contains(t, read(t, "README.zh-CN.md"), " "+ratio[1]+" 倍")
}

// TestTwoCommands: the first of them, in a new clone, starts a server that answers as the
// README shows. (The second runs this test.)
func TestTwoCommands(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	run, test, _ := strings.Cut(marked(t, "the two commands"), "\n")
	require.Regexp(t, `^\./build\.sh test\b`, test)
	port := servertest.FreePort(t)
	command := exec.Command("bash", "-ec", "exec "+run)
	command.Dir = page.Clone(t, top)
	command.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "FUNNEL_SERVER="+servertest.Program())
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	servertest.Eventually(t, "the server listens", func() bool {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			connection.Close()
		}
		return err == nil
	})

	first, shown, _ := strings.Cut(strings.TrimPrefix(marked(t, "the first call"), "$ "), "\n")
	want := regexp.MustCompile(`(?m)^\d\) \(integer\) (-?\d+) +# .*$`).ReplaceAllString(shown, "$1")
	require.Equal(t, want, page.Shell(t, command.Dir, port, first))
}

// program is the four lines of the README in a main.go.
const program = `package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	ctx := context.Background()
%s
	fmt.Println(!result.Limited(), result.Remaining, err)
}
`

// TestProgramOutsideOfTheRepository: the lines of the README, in a folder beside a clone,
// make a program that asks.
func TestProgramOutsideOfTheRepository(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	folder := filepath.Join(filepath.Dir(page.Clone(t, top)), "hello")
	require.NoError(t, os.Mkdir(folder, 0o755))
	lines := marked(t, "four lines")
	require.Equal(t, 1, strings.Count(lines, "localhost:6379"))
	lines = strings.Replace(lines, "localhost:6379", server.Addr(), 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), fmt.Appendf(nil, program, lines), 0o644))
	page.Shell(t, folder, server.Port, marked(t, "a new program"))
	for range 2 { // a token leaks in 2 seconds, and the lines may take longer
		require.Regexp(t, `(^|\n)true 1[34] <nil>\n$`, page.Shell(t, folder, server.Port, "go run ."))
	}
	require.Equal(t, int64(2), servertest.InfoField(t, server.Client(t), "funnel", "funnel_allowed"))
}
