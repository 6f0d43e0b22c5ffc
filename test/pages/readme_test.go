// The READMEs keep what they show: the first call, the first of the two commands, and the program
// of four lines.

package pages_test

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

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

// TestREADMEsShowTheSame: the Chinese README shows commands of the English one, which are tested.
func TestREADMEsShowTheSame(t *testing.T) {
	commands := func(path string) (commands []page.Block) {
		for _, block := range page.Blocks(t, filepath.Join(top, path)) {
			if strings.HasPrefix(block.Mark, "test: ") {
				block.Line = 0
				block.Text = regexp.MustCompile(`(?m) +(#|//) .*$`).ReplaceAllString(block.Text, "")
				commands = append(commands, block)
			}
		}
		return commands
	}
	require.NotEmpty(t, commands("README.zh-CN.md"))
	require.Subset(t, commands("README.md"), commands("README.zh-CN.md"))
}

// TestFirstCall runs the first of the two commands in a new clone: its server answers as the README
// shows. (The second command runs this test.) The short form starts the server itself.
func TestFirstCall(t *testing.T) {
	page.NeedRedisCLI(t)
	run, test, _ := strings.Cut(marked(t, "the two commands"), "\n")
	require.Regexp(t, `^\./build\.sh test\b`, test)
	port := servertest.FreePort(t)
	if os.Getenv("FUNNEL_LONG") == "" {
		port = servertest.StartModule(t).Port
	} else {
		command := exec.Command("bash", "-ec", "exec "+run)
		command.Dir = page.Clone(t, top)
		command.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "FUNNEL_SERVER="+servertest.Program())
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		command.Stdout, command.Stderr = t.Output(), t.Output()
		require.NoError(t, command.Start())
		t.Cleanup(func() { command.Process.Kill(); command.Wait() })
		servertest.AwaitListener(t, "127.0.0.1:"+strconv.Itoa(port))
	}
	first, shown, _ := strings.Cut(strings.TrimPrefix(marked(t, "the first call"), "$ "), "\n")
	want := regexp.MustCompile(`(?m)^\d\) \(integer\) (-?\d+) +# .*$`).ReplaceAllString(shown, "$1")
	require.Equal(t, want, page.Shell(t, top, port, first))
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

// TestProgramOutsideOfTheRepository: the lines of the README, in a folder beside the repository,
// make a program that asks.
func TestProgramOutsideOfTheRepository(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	folder := filepath.Join(t.TempDir(), "hello")
	repository, err := filepath.Abs(top)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(repository, filepath.Join(filepath.Dir(folder), "funnel")))
	require.NoError(t, os.Mkdir(folder, 0o755))
	lines := marked(t, "four lines")
	require.Equal(t, 1, strings.Count(lines, "localhost:6379"))
	lines = strings.Replace(lines, "localhost:6379", server.Addr(), 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), fmt.Appendf(nil, program, lines), 0o644))
	page.Shell(t, folder, server.Port, marked(t, "a new program"))
	require.Equal(t, "true 14 <nil>\n", page.Shell(t, folder, server.Port, "go run . 2>/dev/null"))
	require.Equal(t, int64(1), servertest.InfoField(t, server.Client(t), "funnel", "funnel_allowed"))
}
