// The snippets of docs/clients.md in other languages than Go wait for their turn, say the server's
// error, and send a refund once.

package pages_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/pages/page"
)

// A language has a client in a package of Debian.
type language struct {
	name   string // the mark of its snippet that reserves
	refund string // follows that snippet
	script string // the mark of its snippet for servers without the module, if it has one
	limit  string // as its snippets write it
	needs  string // a program that ends well where the client is installed, and prints its version

	program string // connects to PORT, and runs TEXT
	round   string // one TEXT of several
	command []string
}

var languages = []language{
	{
		"redis-cli", `redis-cli cl.refund user:42 15 30 60 1 "$8"`, "", "15 30 60",
		"redis-cli --version",
		"redis-cli() { command redis-cli -e -p PORT \"$@\"; }\nTEXT",
		"TEXT\necho went on\n",
		[]string{"bash", "-e", "-c"},
	}, {
		"redis-py", `r.execute_command("CL.REFUND", "user:42", 15, 30, 60, 1, rows[0][5])`, "redis-py-script", "15, 30, 60",
		"import redis; print(redis.__version__)",
		"IMPORTS\nTEXT", // of the page
		"TEXT\nprint('went on')\n",
		[]string{"/usr/bin/python3", "-c"},
	}, {
		"node-redis", `await client.sendCommand(["CL.REFUND", "user:42", "15", "30", "60", "1", rows[0][5]]);`,
		"node-redis-script", `"15", "30", "60"`,
		`require("redis"); console.log(process.version)`,
		// It connects again: half a second to do so.
		`const client = require("redis").createClient({ url: "redis://127.0.0.1:PORT" });
			const { createHash } = require("node:crypto");
			const { readFileSync } = require("node:fs");
			const { setTimeout } = require("node:timers/promises");
			client.on("error", () => {});
			(async () => { await client.connect(); TEXT })()
				.then(() => process.exit(0), (error) => { console.error(error); setTimeout(500).then(() => process.exit(1)); });`,
		"{ TEXT\nconsole.log('went on'); }\n",
		[]string{"node", "-e"},
	}, {
		"phpredis", `$reply = $redis->rawCommand("CL.REFUND", "user:42", 15, 30, 60, 1, $rows[0][5]);
			if ($reply === false) throw new RuntimeException($redis->getLastError());`, "", "15, 30, 60",
		"new Redis(); echo phpversion('redis');",
		// If the connection closes before it reads the answer, it connects again, and waits for
		// that answer.
		"ini_set('default_socket_timeout', 2); $redis = new Redis(); $redis->connect('127.0.0.1', PORT);\nTEXT",
		"TEXT\necho \"went on\\n\";\n",
		[]string{"php", "-r"},
	}, {
		"redis-rb", `redis.call("CL.REFUND", "user:42", 15, 30, 60, 1, rows[0][5])`, "", "15, 30, 60",
		"require 'redis'; puts Redis::VERSION",
		"require 'redis'\nredis = Redis.new(port: PORT, reconnect_attempts: 0)\nTEXT",
		"TEXT\nputs 'went on'\n",
		[]string{"ruby", "-e"},
	},
}

// run returns a command that runs text. Debian keeps node-redis in a folder that its own node
// knows, and others do not.
func (l language) run(text string) *exec.Cmd {
	command := exec.Command(l.command[0], append(l.command[1:len(l.command):len(l.command)], text)...)
	command.Dir = "../.."
	command.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs:"+os.Getenv("NODE_PATH"))
	return command
}

// at returns a command that runs text with a client of a server.
func (l language) at(addr, text string) *exec.Cmd {
	_, port, _ := net.SplitHostPort(addr)
	return l.run(strings.NewReplacer("PORT", port, "TEXT", text).Replace(l.program))
}

// languageOf skips a test if the language is not installed.
func languageOf(t *testing.T, name string) language {
	l := languages[slices.IndexFunc(languages, func(l language) bool { return l.name == name })]
	version, err := l.run(l.needs).CombinedOutput()
	if err != nil {
		t.Skipf("needs %s: %v: %s", name, err, version)
	}
	t.Log(name, string(version))
	imports := replaced(t, snippet(t, "redis-py-imports"), "port=6379, socket_timeout=1", "port=PORT, socket_timeout=10")
	l.program = strings.Replace(l.program, "IMPORTS", imports, 1)
	return l
}

// TestSnippets runs them with the module, and by script. TestGoSnippets has the clients in Go.
func TestSnippets(t *testing.T) {
	require.Contains(t, clients(t), "reconnect_attempts: 0")
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l := languageOf(t, l.name)
			shorter := strings.Replace(l.limit, "60", "15", 1)
			turns := func(name string, server *servertest.Server) {
				round := strings.Replace(l.round, "TEXT", replaced(t, snippet(t, name), l.limit, shorter), 1)
				requireTurns(t, server, func() *exec.Cmd { return l.at(server.Addr(), strings.Repeat(round, rounds)) })
				wrong := strings.Replace(round, shorter, strings.Replace(shorter, "30", "0", 1), 1)
				end := run(t, server.Client(t), l.at(server.Addr(), wrong))
				require.Error(t, end.err, "an error of the server is one of the snippet: %v", end)
				require.Contains(t, end.output, "count must be", end)
			}
			server := servertest.StartModule(t)
			turns(l.name, server)
			requireRefund(t, server, func(addr string) *exec.Cmd { return l.at(addr, snippet(t, l.name)+"\n"+l.refund) })
			if l.script != "" {
				turns(l.script, servertest.Start(t, servertest.Options{}))
			}
		})
	}
}

// TestWaitForASlot runs the snippet of docs/commands.md: the work begins when another holder gives
// its slot back, and if the work fails its own slot is free again.
func TestWaitForASlot(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.StartModule(t)
	client := server.Client(t)
	servertest.Call(t, client, "cl.reserve jobs 1 SLOTS 60 other")
	work := "import random, uuid\ndef work(): print(r.zcard('jobs')); raise SystemExit('failed')\n"
	snippet := replaced(t, page.Marked(t, "../../docs/commands.md", "wait for a slot"), `"jobs", 5`, `"jobs", 1`)
	command := l.at(server.Addr(), work+snippet)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	require.NoError(t, command.Start())
	servertest.Eventually(t, "the snippet asks again", func() bool {
		return servertest.InfoField(t, client, "funnel", "funnel_limited") > 1
	})
	require.EqualValues(t, 1, client.ZCard(t.Context(), "jobs").Val())
	servertest.Call(t, client, "cl.refund jobs 1 SLOTS 60 other")
	require.Error(t, command.Wait())
	require.Equal(t, "1\nfailed\n", output.String())
	require.Zero(t, client.Exists(t.Context(), "jobs").Val())
}

// TestTries: the sixth try is refused, for the rest of the period.
func TestTries(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.StartModule(t)
	try := "user = 'ann'\nfor _ in range(6):\n    " +
		strings.ReplaceAll(snippet(t, "redis-py-tries"), "\n", "\n    ") + "\n    print('tried')\n"
	end := run(t, server.Client(t), l.at(server.Addr(), try))
	require.Error(t, end.err, end)
	require.Equal(t, 5, strings.Count(end.output, "tried\n"), end)
	// 901 if all tries come within a millisecond, because the period's end is rounded up to one.
	require.Regexp(t, `PermissionError: 5 tries in 15 minutes: try again in (899|900|901) s\n$`, end.output)
	left := server.Client(t).PTTL(t.Context(), "login:ann").Val()
	require.InDelta(t, 15*time.Minute, left, float64(servertest.Patience), end)
}

// TestEndOfMonth: Python's calendar agrees with package limiter's. In Asunción, 1 October 2017 began
// at one o'clock.
func TestEndOfMonth(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	l.program = replaced(t, l.program, "r = redis", "# r = redis") // it needs no server
	var got, want, lines strings.Builder
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Asuncion", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		for _, at := range []string{"2017-09-30T23:00:00Z", "2017-10-01T03:59:59Z", "2017-10-01T04:00:00Z",
			"2026-11-30T12:00:00Z", "2026-12-31T23:30:00Z", "2026-12-31T22:30:00Z",
			"2028-02-29T12:00:00Z", "2026-03-31T23:59:59Z"} {
			now, err := time.Parse(time.RFC3339, at)
			require.NoError(t, err)
			_, end := limiter.Monthly(1, zone).PeriodAt(now)
			fmt.Fprintln(&want, name, at, end.Unix())
			fmt.Fprintf(&lines, "print(%q, %q, end_of_month(%q, %d))\n", name, at, name, now.Unix())
		}
	}
	command := l.at("127.0.0.1:1", snippet(t, "redis-py-month")+"\n"+lines.String())
	command.Stdout, command.Stderr = &got, &got
	require.NoError(t, command.Run(), got.String())
	require.Equal(t, want.String(), got.String())
}

// TestMonthThatHasEnded: a program whose clock is a year behind uses the month that runs.
func TestMonthThatHasEnded(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	client, _ := servertest.StartWithClock(t) // it is 2100
	end := run(t, client, l.at(client.Options().Addr, snippet(t, "redis-py-month")+`
print(month("CL.RESERVE", "u42", "Europe/Berlin", 500)[2][0][5])
print(month("CL.CHARGE", "u42", "Europe/Berlin", 999_600)[0])
`))
	require.NoError(t, end.err, end)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	_, until := limiter.Monthly(1, berlin).PeriodAt(servertest.Epoch)
	require.Equal(t, fmt.Sprintf("b'%d'\n1\n", until.Unix()), end.output)
	require.Equal(t, []int{2, 2}, []int{end.calls["cl.reserve"], end.calls["cl.charge"]}, "each asks once more: %v", end)
}

// TestChargeInPieces: the piece that overspends the month ends the answer, and a caller that reads
// no further is charged for what it has read.
func TestChargeInPieces(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.StartModule(t)
	end := run(t, server.Client(t), l.at(server.Addr(), snippet(t, "redis-py-month")+"\n"+snippet(t, "redis-py-pieces")+`
def used(user): return int(r.get(f"{{{user}}}:month").split(b":")[1])

month("CL.RESERVE", "ann", "UTC", 999_700)
print(len(list(charged("ann", "UTC", ((".", 100) for _ in range(10))))), used("ann"))
print(len(list(charged("bob", "UTC", ((".", 100) for _ in range(5))))), used("bob"))
answer = charged("eve", "UTC", ((".", 100) for _ in range(10)))
for _ in range(4): next(answer)
answer.close()
print(used("eve"))
`))
	require.NoError(t, end.err, end)
	require.Equal(t, "4 1000100\n5 500\n400\n", end.output)
}

// TestWorkerHoldsASlot ends the work in each way. `held` says whether the slot was lost, and whether
// somebody else was limited until then.
func TestWorkerHoldsASlot(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.StartModule(t)
	text := replaced(t, snippet(t, "redis-py-slot"), "TTL = 30", "TTL = 6") + `
def held(key, seconds, *command):
    with slot(key, 1) as lost:
        if command:
            r.execute_command(*command)
        print(key, lost.wait(seconds), r.execute_command("CL.PEEK", key, 1, "SLOTS", 1, "other")[0], end=" ")
    print(r.exists(key))

held("long", 7)  # longer than the ttl
held("lost", 60, "DEL", "lost")
try:
    with slot("taken", 1), slot("taken", 1): pass
except TimeoutError as error:
    print(error, r.exists("taken"))
done = []
steps = [lambda: done.append(r.exists("{acme}:jobs")), lambda: r.delete("{acme}:jobs"), lambda: time.sleep(4), done.clear]
try:
    ` + strings.ReplaceAll(snippet(t, "redis-py-slot-use"), "\n", "\n    ") + `
except RuntimeError as error:
    print(error, done, r.exists("{acme}:jobs"))
held("denied", 60, "ACL SETUSER", "default", "-cl.reserve")
`
	end := run(t, server.Client(t), l.at(server.Addr(), text))
	require.NoError(t, end.err, end)
	require.Equal(t, `long False 1 0
lost True 0 0
all slots are taken: ask again in a second 0
the slot was lost [1] 0
denied True 1 0
`, end.output, "the work hears of a slot that cannot be renewed before the slot ends")
}

// TestRowsOfAScript: the tokens that the work did not use and the slot are free again.
func TestRowsOfAScript(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.Start(t, servertest.Options{})
	load, _, _ := strings.Cut(snippet(t, "redis-py-script"), "\n")
	text := load + "\nholder = 'h1'\nwork = lambda: print(r.zcard('{acme}:slots'))\n" +
		replaced(t, snippet(t, "redis-py-script-rows"), "90000, 60)", "90000, 31536000)") + `
print(r.exists("{acme}:slots"), funnels(keys=keys[1:], args=["peek", *minute, 1])[2][0][2])
`
	end := run(t, server.Client(t), l.at(server.Addr(), text))
	require.NoError(t, end.err, end)
	require.Equal(t, "1\n0 89700\n", end.output)
}

// TestClusterInPython: the clients of redis-py for clusters find the node of a call, also of one
// with several rows.
func TestClusterInPython(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{Module: servertest.Module(t)})
	l.program = `
import asyncio, redis, redis.asyncio
calls = [("CL.RESERVE", key, 15, 30, 31536000, 1, 10) for key in "abcdef"]
calls.append(("CL.RESERVE", "{acme}:requests", 10, 60, 60, 1, "{acme}:tokens", 3000, 30000, 31536000, 1000))
r = redis.RedisCluster(host="localhost", port=PORT)
print([r.execute_command(*call)[2][-1][2] for call in calls])

async def main():
    r = redis.asyncio.RedisCluster(host="localhost", port=PORT)
    print([(await r.execute_command(*call))[2][-1][2] for call in calls])
    await r.close()

asyncio.run(main())
`
	command := l.at(cluster.Primaries[0].Addr(), "")
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, "[14, 14, 14, 14, 14, 14, 2000]\n[13, 13, 13, 13, 13, 13, 1000]\n", string(output))
}

// TestMeteredStreams ends a stream in each way. A minute lasts a year, so nothing leaks.
func TestMeteredStreams(t *testing.T) {
	t.Parallel()
	l := languageOf(t, "redis-py")
	server := servertest.StartModule(t)
	program, err := os.ReadFile("testdata/metered.py")
	require.NoError(t, err)
	l.program = string(program)
	quick := strings.ReplaceAll(snippet(t, "redis-py-asyncio"), "30", "6")
	end := run(t, server.Client(t), l.at(server.Addr(), replaced(t, quick, "90000, 60)", "90000, 31536000)")))
	require.NoError(t, end.err, end)
	require.Equal(t, `refunded: done, 89900 remain, 5 free
charged: done, 89300 remain, 5 free
lost: the slot was lost, 89900 remain, 5 free
cancelled: CancelledError, 89900 remain, 5 free
taken: ask again in 1 s, 90000 remain, 0 free
denied: the slot was not renewed, 89900 remain, 5 free
`, end.output)
}
