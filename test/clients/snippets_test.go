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
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/page"
)

const clientsPage = "../../docs/clients.md"

// clients returns the page.
func clients(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(clientsPage)
	require.NoError(t, err)
	return string(content)
}

// snippet returns the block of docs/clients.md that is marked with that name.
func snippet(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSuffix(page.Marked(t, clientsPage, name), "\n")
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

// key is the funnel of all snippets.
const key = "user:42"

// requireTurns requires that a process goes through all rounds with one call each, and
// sleeps until its turn, no longer. Then another process, which would have to wait for too
// long, gives up with an error, and leaves nothing behind.
func requireTurns(t *testing.T, server *servertest.Server, command func() *exec.Cmd) {
	t.Helper()
	ctx := context.Background()
	client := server.Client(t)
	output, err := command().CombinedOutput()
	left := client.PTTL(ctx, key).Val()
	require.NoError(t, err, "%s", output)
	lines := regexp.MustCompile(`(?m)^remaining: [0-2]\n`).ReplaceAllString(string(output), "")
	require.Equal(t, strings.Repeat("went on\n", rounds), lines)
	require.LessOrEqual(t, left, 6*time.Second, "it has waited for its turn")
	require.Greater(t, left, 2500*time.Millisecond, "it has not waited for much longer")
	calls := callsOf(t, client)
	if asked := calls["evalsha"] + calls["eval"]; asked > 0 {
		require.LessOrEqual(t, asked, rounds+1, "one of them sends the text of the script")
		require.Equal(t, rounds, calls["set"])
	} else {
		require.LessOrEqual(t, calls["cl.reserve"], rounds+1, "one of them learns how the capacity is read")
	}

	result, err := limiter.New(client).Charge(ctx, key, limiter.Per(1, 2*time.Second).Burst(3), 100)
	require.NoError(t, err)
	require.Greater(t, result.RetryAfter, time.Minute)
	before := client.Get(ctx, key).Val()
	output, err = command().CombinedOutput()
	require.Error(t, err, "%s", output)
	require.Regexp(t, "no token within 10 s, ask again in|the caller waits for no more than", string(output))
	require.NotContains(t, string(output), "went on")
	require.Equal(t, before, client.Get(ctx, key).Val())
}

// callsOf are how often each command was called, also by scripts.
func callsOf(t *testing.T, client *redis.Client) map[string]int {
	t.Helper()
	info, err := client.InfoMap(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	calls := map[string]int{}
	for field, values := range info["Commandstats"] {
		var count int
		_, err := fmt.Sscanf(values, "calls=%d,", &count)
		require.NoError(t, err)
		calls[strings.TrimPrefix(field, "cmdstat_")] = count
	}
	return calls
}

// TestTableOfCalls: each line of the page's table, one after the other.
func TestTableOfCalls(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	var calls []string
	for _, match := range regexp.MustCompile("(?m)^\\| [^|]+ \\| `(CL\\.[^`]+)` \\|").FindAllStringSubmatch(clients(t), -1) {
		calls = append(calls, match[1]+" => "+servertest.Call(t, client, match[1]))
	}
	require.Equal(t, []string{
		"CL.RESERVE user:42 15 30 60 1 10 => 0 0 [0 15 14 0 2 2s]",
		"CL.RESERVE user:42 15 30 60 1 => 0 0 [0 15 13 0 4 4s]",
		"CL.RESERVE {acme}:requests 10 60 60 1 {acme}:tokens 3000 30000 60 1000 => 0 0 [0 10 9 0 1 1s] [0 3000 2000 0 2 2s]",
		"CL.TAKE user:42 15 30 60 20 => 1 2 [1 15 0 2 30 30s] 13",
		"CL.CHARGE {acme}:tokens 3000 30000 60 250 => 0 0 [0 3000 1750 0 2.5 2.5s]",
		"CL.REFUND {acme}:tokens 3000 30000 60 250 4102444802000000000 => 0 0 [0 3000 2000 0 2]",
		"CL.PEEK {acme}:tokens 3000 30000 60 1 => 0 0 [0 3000 2000 0 2]",
	}, calls)
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
	page.NeedRedisCLI(t)
	server := servertest.StartModule(t)
	text := narrow(t, snippet(t, "redis-cli"), "15 30 60", "3 1 2")
	wrapper := fmt.Sprintf("redis-cli() { command redis-cli -p %d \"$@\"; }\n", server.Port)
	requireTurns(t, server, func() *exec.Cmd {
		return exec.Command("bash", "-c", wrapper+strings.Repeat(text+"\necho went on\n", rounds))
	})

	output, err := exec.Command("bash", "-c", wrapper+strings.Replace(text, "3 1 2", "3 0 2", 1)).CombinedOutput()
	require.Error(t, err, "an error of the server is one of the snippet")
	require.Contains(t, string(output), "ERR count must be")

	script := servertest.Start(t, servertest.Options{})
	row := regexp.MustCompile("(?m)^\\| redis-cli \\| `redis-cli (--eval .*)`").FindStringSubmatch(clients(t))
	require.NotNil(t, row)
	command := exec.Command("bash", "-c", fmt.Sprintf("redis-cli -p %d %s", script.Port, row[1]))
	command.Dir = "../.."
	output, err = command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Regexp(t, `^0\n0\n0\n15\n14\n0\n2\n\d{19}\n$`, string(output))
}

func redisPyVersion(program string) *exec.Cmd {
	return exec.Command(program, "-c", "import redis; print(redis.__version__)")
}

func TestRedisPy(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "redis-py", redisPyVersion, "python3", "/usr/bin/python3")
	for name, server := range map[string]*servertest.Server{"redis-py": servertest.StartModule(t), "redis-py-script": servertest.Start(t, servertest.Options{})} {
		t.Run(name, func(t *testing.T) {
			text := narrow(t, snippet(t, name), "15, 30, 60", "3, 1, 2")
			program := fmt.Sprintf("import redis, time\nr = redis.Redis(port=%d)\n", server.Port) +
				strings.Repeat(text+"\nprint('went on', flush=True)\n", rounds)
			requireTurns(t, server, func() *exec.Cmd {
				command := exec.Command(python, "-c", program)
				command.Dir = "../.."
				return command
			})
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

func nodeVersion(program string) *exec.Cmd {
	return node(program, `require("redis"); console.log(process.version)`)
}

func TestNodeRedis(t *testing.T) {
	t.Parallel()
	program := interpreter(t, "node-redis", nodeVersion, "node")
	for name, server := range map[string]*servertest.Server{"node-redis": servertest.StartModule(t), "node-redis-script": servertest.Start(t, servertest.Options{})} {
		t.Run(name, func(t *testing.T) {
			text := narrow(t, snippet(t, name), `"15", "30", "60"`, `"3", "1", "2"`)
			script := fmt.Sprintf(`
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
				})();`, server.Port, rounds, text)
			requireTurns(t, server, func() *exec.Cmd { return node(program, script) })
		})
	}
}

// php runs a script with a connection to a server. A client that sees a connection closed
// before it reads the answer connects again, and waits for that answer until the timeout.
func php(addr, script string) *exec.Cmd {
	return exec.Command("php", "-d", "default_socket_timeout=2", "-r", fmt.Sprintf("$redis = new Redis(); $redis->connect(...explode(':', '%s'));\n%s", addr, script))
}

func TestPHPRedis(t *testing.T) {
	t.Parallel()
	interpreter(t, "phpredis", phpVersion, "php")
	server := servertest.StartModule(t)
	text := narrow(t, snippet(t, "phpredis"), "15, 30, 60", "3, 1, 2")
	requireTurns(t, server, func() *exec.Cmd {
		return php(server.Addr(), strings.Repeat(text+"\necho \"went on\\n\";\n", rounds))
	})
	output, err := php(server.Addr(), strings.Replace(text, "3, 1, 2", "3, 0, 2", 1)).CombinedOutput()
	require.Error(t, err, "an error of the server is one of the snippet")
	require.Contains(t, string(output), "ERR count must be")
}

func phpVersion(program string) *exec.Cmd {
	return exec.Command(program, "-r", "new Redis(); echo phpversion('redis');")
}
