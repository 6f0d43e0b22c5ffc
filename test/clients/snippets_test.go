// Package clients_test runs what docs/clients.md and docs/moving-from-redis-rate.md say,
// with the clients themselves, against real servers.
package clients_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// page returns docs/clients.md.
func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/clients.md")
	require.NoError(t, err)
	return string(content)
}

// snippet returns the block of docs/clients.md that is marked with that name.
func snippet(t *testing.T, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t), "<!-- test: "+name+" -->\n```")
	require.True(t, found, "docs/clients.md has no block for %s", name)
	block, _, closed := strings.Cut(rest, "\n```\n")
	require.True(t, closed)
	_, text, _ := strings.Cut(block, "\n")
	return text
}

func TestEveryMarkedSnippetIsRun(t *testing.T) {
	var marked []string
	for _, match := range regexp.MustCompile(`<!-- test: (\S+) -->`).FindAllStringSubmatch(page(t), -1) {
		marked = append(marked, match[1])
	}
	require.ElementsMatch(t, []string{
		"limiter", "go-redis", "rueidis", "redis-py", "node-redis", "redis-cli", "lua", "function",
		"redis-py-script", "node-redis-script",
	}, marked)
}

// rounds is how often a snippet runs in one process: as often as the funnel of narrow
// lets through at once, and once more.
const rounds = 4

// narrow puts a limit of 3 that leaks one per two seconds in the place of the page's,
// so that the last round has to wait for 2 seconds, and the funnel drains in 6.
func narrow(t *testing.T, text, old, new string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), "the snippet has %q once", old)
	return strings.Replace(text, old, new, 1)
}

// run requires that a process has gone through all rounds, has waited in the last, and
// no longer than it had to.
func run(t *testing.T, server *servertest.Server, command *exec.Cmd) {
	t.Helper()
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, strings.Repeat("went on\n", rounds), string(output))

	client := server.Client(t)
	info, err := client.InfoMap(context.Background(), "everything").Result()
	require.NoError(t, err)
	calls := func(command string) (count int) {
		_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_"+command], "calls=%d,", &count) // absent: 0
		return count
	}
	asked, allowed := calls("cl.throttle"), info["funnel"]["funnel_allowed"]
	if asked == 0 { // the script, whose text one of the calls sends, performs a SET for each that is allowed
		asked, allowed = calls("evalsha")+calls("eval"), strconv.Itoa(calls("set"))
	}
	require.Greater(t, asked, rounds, "one of the calls was limited, and made again")
	require.LessOrEqual(t, asked, rounds+4, "but not before the time in the reply")
	require.Equal(t, strconv.Itoa(rounds), allowed, "the other calls poured")
	left, err := client.PTTL(context.Background(), "user:42").Result()
	require.NoError(t, err)
	require.Greater(t, left, 2500*time.Millisecond, "it did not wait until the funnel was empty")
}

// interpreter finds a program that passes a trial, or skips the test.
func interpreter(t *testing.T, what string, trial func(program string) *exec.Cmd, programs ...string) string {
	t.Helper()
	var reasons []string
	for _, program := range programs {
		output, err := trial(program).CombinedOutput()
		if err == nil {
			t.Logf("%s %s", what, strings.TrimSpace(string(output)))
			return program
		}
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		reasons = append(reasons, fmt.Sprintf("%s: %v: %s", program, err, lines[len(lines)-1]))
	}
	t.Skipf("needs %s: %s", what, strings.Join(reasons, "; "))
	return ""
}

func TestRedisCLI(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("needs redis-cli: ", err)
	}
	server := servertest.StartModule(t)
	text := narrow(t, snippet(t, "redis-cli"), "15 30 60", "3 1 2")
	wrapper := fmt.Sprintf("redis-cli() { command redis-cli -p %d \"$@\"; }\n", server.Port)
	run(t, server, exec.Command("bash", "-c", wrapper+strings.Repeat(text+"\necho went on\n", rounds)))

	output, err := exec.Command("bash", "-c", wrapper+strings.Replace(text, "3 1 2", "3 0 2", 1)).CombinedOutput()
	require.Error(t, err, "an error of the server ends the loop")
	require.Contains(t, string(output), "ERR count must be")

	script := servertest.Start(t, servertest.Options{})
	row := regexp.MustCompile("(?m)^\\| redis-cli \\| `redis-cli (--eval .*)`").FindStringSubmatch(page(t))
	require.NotNil(t, row)
	command := exec.Command("bash", "-c", fmt.Sprintf("redis-cli -p %d %s", script.Port, row[1]))
	command.Dir = "../.."
	output, err = command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, "0\n0\n0\n15\n14\n0\n2\n", string(output))
}

func TestRedisPy(t *testing.T) {
	t.Parallel()
	trial := func(program string) *exec.Cmd {
		return exec.Command(program, "-c", "import redis; print(redis.__version__)")
	}
	python := interpreter(t, "redis-py", trial, "python3", "/usr/bin/python3")
	for name, server := range map[string]*servertest.Server{"redis-py": servertest.StartModule(t), "redis-py-script": servertest.Start(t, servertest.Options{})} {
		t.Run(name, func(t *testing.T) {
			text := narrow(t, snippet(t, name), "15, 30, 60", "3, 1, 2")
			program := fmt.Sprintf("import redis, time\nr = redis.Redis(port=%d)\n", server.Port) +
				strings.Repeat(text+"\nprint('went on', flush=True)\n", rounds)
			command := exec.Command(python, "-c", program)
			command.Dir = "../.."
			run(t, server, command)
		})
	}
}

// node runs a script. Debian keeps node-redis in a folder that its own node knows, and
// others do not.
func node(program, script string) *exec.Cmd {
	command := exec.Command(program, "-e", script)
	paths := []string{"/usr/share/nodejs", os.Getenv("NODE_PATH")}
	command.Env = append(os.Environ(), "NODE_PATH="+strings.Join(paths, string(filepath.ListSeparator)))
	command.Dir = "../.."
	return command
}

func TestNodeRedis(t *testing.T) {
	t.Parallel()
	trial := func(program string) *exec.Cmd { return node(program, `require("redis"); console.log(process.version)`) }
	program := interpreter(t, "node-redis", trial, "node")
	for name, server := range map[string]*servertest.Server{"node-redis": servertest.StartModule(t), "node-redis-script": servertest.Start(t, servertest.Options{})} {
		t.Run(name, func(t *testing.T) {
			text := narrow(t, snippet(t, name), `"15", "30", "60"`, `"3", "1", "2"`)
			run(t, server, node(program, fmt.Sprintf(`
				const { createClient } = require("redis");
				const { readFileSync } = require("node:fs");
				const { setTimeout } = require("node:timers/promises");
				(async () => {
					const client = createClient({ url: "redis://127.0.0.1:%d" });
					await client.connect();
					for (let i = 0; i < %d; i++) {
						%s
						console.log("went on");
					}
					await client.quit();
				})();`, server.Port, rounds, text)))
		})
	}
}
