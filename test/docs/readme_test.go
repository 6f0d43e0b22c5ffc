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
	english, chinese := read(t, "README.md"), read(t, "README.zh-CN.md")
	require.LessOrEqual(t, strings.Count(english, "\n"), 150)
	require.Equal(t, strings.Count(english, "\n"), strings.Count(chinese, "\n"))
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
// and copied into the READMEs by hand.
func TestFiguresAreThoseOfThePage(t *testing.T) {
	measured := read(t, "docs/performance.md")
	var figures [][]string
	for _, path := range []string{"README.md", "README.zh-CN.md"} {
		here := regexp.MustCompile(`\b\d{1,3},\d{3}\b`).FindAllString(read(t, path), -1)
		require.Len(t, here, 4, path)
		for _, figure := range here {
			require.True(t, strings.Contains(measured, "| "+figure+" |"), "%s: %s instructions were not measured", path, figure)
		}
		figures = append(figures, here)
	}
	require.Equal(t, figures[0], figures[1])
	throttle := regexp.MustCompile(`(?m)^\| CL\.THROTTLE \| ([\d,]+) .* ([\d.]+) \|$`).FindStringSubmatch(measured)
	require.NotNil(t, throttle)
	require.Equal(t, throttle[1], figures[0][0])
	for path, ratio := range map[string]string{"README.md": throttle[2] + " times", "README.zh-CN.md": throttle[2] + " 倍"} {
		require.True(t, strings.Contains(read(t, path), " "+ratio), "%s does not say %s", path, ratio)
	}
}

// TestTwoCommands: the first of them, in a new clone, starts a server that answers as the
// README shows. (The second runs this test.)
func TestTwoCommands(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	run, test, _ := strings.Cut(marked(t, "README.md", "the two commands"), "\n")
	require.Regexp(t, `^\./build\.sh test\b`, test)
	port := servertest.FreePort(t)
	command := exec.Command("bash", "-ec", "exec "+run)
	command.Dir = page.Clone(t, top)
	command.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "FUNNEL_SERVER="+servertest.Program())
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() { command.Wait(); close(ended) }()
	t.Cleanup(func() {
		command.Process.Kill()
		<-ended
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

	shown := strings.Split(strings.TrimSpace(marked(t, "README.md", "the first call")), "\n")
	first, found := strings.CutPrefix(shown[0], "$ ")
	require.True(t, found)
	want := ""
	for i, line := range shown[1:] {
		value := regexp.MustCompile(`^(\d)\) \(integer\) (-?\d+) +# `).FindStringSubmatch(line)
		require.NotNil(t, value, line)
		require.Equal(t, strconv.Itoa(i+1), value[1])
		want += value[2] + "\n"
	}
	require.Equal(t, want, page.Shell(t, command.Dir, port, first))
}

// TestProgramOutsideOfTheRepository: the lines of the README, in a folder beside a clone,
// make a program that asks.
func TestProgramOutsideOfTheRepository(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	folder := t.TempDir()
	clone, err := filepath.Abs(top)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(clone, filepath.Join(folder, "funnel")))
	page.Shell(t, folder, server.Port, marked(t, "README.md", "a new program"))
	program := marked(t, "README.md", "main.go")
	require.Equal(t, 1, strings.Count(program, "localhost:6379"))
	program = strings.Replace(program, "localhost:6379", server.Addr(), 1)
	folder = filepath.Join(folder, "hello")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o644))
	for remaining := 14; remaining >= 13; remaining-- {
		output := page.Shell(t, folder, server.Port, marked(t, "README.md", "run it"))
		require.True(t, strings.HasSuffix(output, fmt.Sprintf("true %d\n", remaining)), output)
	}
	require.Equal(t, int64(2), servertest.InfoField(t, server.Client(t), "funnel", "funnel_allowed"))
}
