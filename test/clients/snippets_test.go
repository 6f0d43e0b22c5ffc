package clients

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

	"github.com/redis/go-redis/v9"
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
	stats, err := client.Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	asked := max(calls(stats, "cl.throttle"), calls(stats, "evalsha")+calls(stats, "eval"))
	// The server counts the call that sends the text of the script, too.
	require.Greater(t, asked, rounds, "one of the calls was limited, and made again:\n%s", stats)
	require.LessOrEqual(t, asked, rounds+4, "but not before the time in the reply:\n%s", stats)
	require.Equal(t, rounds, allowed(t, client, stats), "the other calls poured:\n%s", stats)
	left, err := client.PTTL(context.Background(), "user:42").Result()
	require.NoError(t, err)
	require.Greater(t, left, 2500*time.Millisecond, "it did not wait until the funnel was empty")
}

func calls(stats, name string) int {
	count, _ := numberBehind(stats, "cmdstat_"+name+":calls=")
	return count
}

// numberBehind reads a number in what INFO shows, if it is there.
func numberBehind(info, text string) (number int, found bool) {
	match := regexp.MustCompile(regexp.QuoteMeta(text) + `(\d+)`).FindStringSubmatch(info)
	if match == nil {
		return 0, false
	}
	number, err := strconv.Atoi(match[1])
	return number, err == nil
}

// allowed is the number of allowed calls: the module counts them, and the script
// performs a SET for each.
func allowed(t *testing.T, client *redis.Client, stats string) int {
	info, err := client.Info(context.Background(), "funnel").Result()
	require.NoError(t, err)
	if count, found := numberBehind(info, "funnel_allowed:"); found {
		return count
	}
	return calls(stats, "set")
}

func withModule(t *testing.T) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
}

func bare(t *testing.T) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{})
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
	server := withModule(t)
	text := narrow(t, snippet(t, "redis-cli"), "15 30 60", "3 1 2")
	wrapper := fmt.Sprintf("redis-cli() { command redis-cli -p %d \"$@\"; }\n", server.Port)
	run(t, server, exec.Command("bash", "-c", wrapper+strings.Repeat(text+"\necho went on\n", rounds)))

	output, err := exec.Command("bash", "-c", wrapper+strings.Replace(text, "3 1 2", "3 0 2", 1)).CombinedOutput()
	require.Error(t, err, "an error of the server ends the loop")
	require.Contains(t, string(output), "ERR count must be")

	script := bare(t)
	row := regexp.MustCompile("(?m)^\\| redis-cli \\| `redis-cli (--eval .*)`").FindStringSubmatch(page(t))
	require.NotNil(t, row)
	command := exec.Command("bash", "-c", fmt.Sprintf("redis-cli -p %d %s", script.Port, row[1]))
	command.Dir = "../.."
	output, err = command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, "0\n0\n0\n15\n14\n0\n2\n", string(output))
}

// pythonTrial fails unless redis-py is there.
func pythonTrial(program string) *exec.Cmd {
	return exec.Command(program, "-c", "import redis; print(redis.__version__)")
}

func TestRedisPy(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "redis-py", pythonTrial, "python3", "/usr/bin/python3")
	for name, server := range map[string]*servertest.Server{"redis-py": withModule(t), "redis-py-script": bare(t)} {
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

// nodeTrial fails unless node-redis is there. Debian keeps it in a folder that its
// own node knows, and others do not.
func nodeTrial(program string) *exec.Cmd {
	return node(program, `require("redis"); console.log(process.version)`)
}

func node(program, script string) *exec.Cmd {
	command := exec.Command(program, "-e", script)
	paths := []string{"/usr/share/nodejs", os.Getenv("NODE_PATH")}
	command.Env = append(os.Environ(), "NODE_PATH="+strings.Join(paths, string(filepath.ListSeparator)))
	command.Dir = "../.."
	return command
}

func TestNodeRedis(t *testing.T) {
	t.Parallel()
	program := interpreter(t, "node-redis", nodeTrial, "node")
	for name, server := range map[string]*servertest.Server{"node-redis": withModule(t), "node-redis-script": bare(t)} {
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
