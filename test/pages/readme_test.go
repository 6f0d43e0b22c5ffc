// The READMEs keep what they show: the first call, the first of the two commands, and the program
// of eight lines. So does the program of docs/go.md, which ends as that page says.

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

// program is the lines of the README in a main.go.
const program = `package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

func main() {
%s}
`

// TestProgramOutsideOfTheRepository: the lines of the README, in a folder beside the repository,
// make a program that limits an API.
func TestProgramOutsideOfTheRepository(t *testing.T) {
	servertest.NeedsLong(t, "go mod tidy takes as long as all other programs of the pages")
	t.Parallel()
	server := servertest.StartModule(t)
	folder := filepath.Join(t.TempDir(), "hello")
	repository, err := filepath.Abs(top)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(repository, filepath.Join(filepath.Dir(folder), "funnel")))
	require.NoError(t, os.Mkdir(folder, 0o755))
	indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(marked(t, "eight lines"), "\t$1")
	source, address := at(t, server, fmt.Sprintf(program, indented))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o644))
	page.Shell(t, folder, server.Port, marked(t, "a new program")+"go build -o hello .")

	serve(t, filepath.Join(folder, "hello"), address)
	_, want, _ := strings.Cut(marked(t, "the sixteenth"), "\n")
	seconds := regexp.MustCompile(`\d+ seconds`)
	require.Equal(t, seconds.ReplaceAllString(want, ""), seconds.ReplaceAllString(lastOfSixteen(t, server, address), ""))
	require.Equal(t, int64(15), servertest.InfoField(t, server.Client(t), "funnel", "funnel_allowed"))
}

// TestProgramOfThePage: the program of docs/go.md limits, and ends when it is interrupted.
func TestProgramOfThePage(t *testing.T) {
	t.Parallel()
	server, path := servertest.StartModule(t), filepath.Join(t.TempDir(), "main.go")
	source, address := at(t, server, page.Marked(t, top+"/docs/go.md", "program"))
	require.NoError(t, os.WriteFile(path, []byte(source), 0o644))
	process := serve(t, built(t, path, nil), address)

	require.Contains(t, lastOfSixteen(t, server, address), `(policy "api")`)
	require.NoError(t, process.Signal(syscall.SIGTERM))
	state, err := process.Wait()
	require.NoError(t, err)
	require.True(t, state.Success(), state)
}

// at returns a program of a page that asks the server, and the address that it listens on. A token
// leaks in an hour, or a busy machine would get some back.
func at(t *testing.T, server *servertest.Server, program string) (source, address string) {
	address = "localhost:" + strconv.Itoa(servertest.FreePort(t))
	source = replaced(t, replaced(t, program, "localhost:6379", server.Addr()), "localhost:8080", address)
	return replaced(t, source, "PerMinute(30)", "PerHour(1)"), address
}

// serve starts a program, and waits until it listens. It ends with the test.
func serve(t *testing.T, program, address string) *os.Process {
	command := exec.Command(program)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = t.Output(), t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	servertest.AwaitListener(t, address)
	return command.Process
}

// lastOfSixteen returns the answer to the last of 16 requests, as the README shows it.
func lastOfSixteen(t *testing.T, server *servertest.Server, address string) string {
	command, _, _ := strings.Cut(strings.TrimPrefix(marked(t, "the sixteenth"), "$ "), "\n")
	return page.Shell(t, top, server.Port, replaced(t, command, "localhost:8080", address))
}
