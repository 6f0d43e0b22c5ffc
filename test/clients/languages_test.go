// The snippets of docs/clients.md in other languages than Go wait for their turn, say the
// server's error, send a refund once, and take what fits.

package clients_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A language has a client in a package of Debian.
type language struct {
	name  string // the mark of its snippet that reserves
	also  []string
	limit string // as its snippets write it
	needs string // a program that ends well where the client is installed, and prints its version

	program string // connects to PORT, and runs TEXT
	round   string // one TEXT of several
	command []string
}

// languages have a row each. The marks of a language follow in the order refund, take, script.
var languages = []language{
	{
		"redis-cli", []string{"redis-cli-refund", "redis-cli-take"}, "15 30 60",
		"redis-cli --version",
		"redis-cli() { command redis-cli -e -p PORT \"$@\"; }\nTEXT",
		"TEXT\necho went on\n",
		[]string{"bash", "-e", "-c"},
	}, {
		"redis-py", []string{"redis-py-refund", "redis-py-take", "redis-py-script"}, "15, 30, 60",
		"import redis; print(redis.__version__)",
		"import redis, time\nfrom redis.retry import Retry\nfrom redis.backoff import NoBackoff\n" +
			"r = redis.Redis(port=PORT, retry=Retry(NoBackoff(), 0))\nTEXT",
		"TEXT\nprint('went on')\n",
		[]string{"/usr/bin/python3", "-c"},
	}, {
		"node-redis", []string{"node-redis-refund", "node-redis-take", "node-redis-script"}, `"15", "30", "60"`,
		`require("redis"); console.log(process.version)`,
		// It connects again: half a second to do so.
		`const client = require("redis").createClient({ url: "redis://127.0.0.1:PORT" });
			const { readFileSync } = require("node:fs");
			const { setTimeout } = require("node:timers/promises");
			client.on("error", () => {});
			(async () => { await client.connect(); TEXT })()
				.then(() => process.exit(0), (error) => { console.error(error); setTimeout(500).then(() => process.exit(1)); });`,
		"{ TEXT\nconsole.log('went on'); }\n",
		[]string{"node", "-e"},
	}, {
		"phpredis", []string{"phpredis-refund", "phpredis-take", "phpredis-script"}, "15, 30, 60",
		"new Redis(); echo phpversion('redis');",
		// If the connection closes before it reads the answer, it connects again, and waits for that answer.
		"ini_set('default_socket_timeout', 2); $redis = new Redis(); $redis->connect('127.0.0.1', PORT);\nTEXT",
		"TEXT\necho \"went on\\n\";\n",
		[]string{"php", "-r"},
	}, {
		"redis-rb", []string{"redis-rb-refund", "", "redis-rb-script"}, "15, 30, 60",
		"require 'redis'; puts Redis::VERSION",
		"require 'redis'; require 'digest'\nredis = Redis.new(port: PORT, reconnect_attempts: 0)\nTEXT",
		"TEXT\nputs 'went on'\n",
		[]string{"ruby", "-e"},
	}, {
		"perl-redis", []string{"perl-redis-refund"}, "15, 30, 60",
		"use Redis; print Redis->VERSION",
		"use strict; use warnings FATAL => 'all'; use Redis; use Time::HiRes 'sleep'; my $redis = Redis->new(server => '127.0.0.1:PORT');\nTEXT",
		"{ TEXT\nprint \"went on\\n\"; }\n",
		[]string{"perl", "-e"},
	}, {
		"hiredis", []string{"hiredis-refund"}, "15 30 60",
		"echo '#include <hiredis/hiredis.h>' | cc -E - | grep -c redisReply",
		`folder=$(mktemp -d); trap 'rm -r "$folder"' EXIT; cc -Wall -Wextra -Werror -o "$folder/program" -x c - -lhiredis -lm <<'END' && "$folder/program"
#include <hiredis/hiredis.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) { redisContext *c = redisConnect("127.0.0.1", PORT); TEXT }
END`,
		"{ TEXT\nputs(\"went on\"); }\n",
		[]string{"bash", "-c"},
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

// TestSnippets runs them with the module, and by script. TestGoSnippets has the clients in Go.
func TestSnippets(t *testing.T) {
	for _, option := range []string{"retry=Retry(NoBackoff(), 0)", "reconnect_attempts: 0"} {
		require.Contains(t, clients(t), option)
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			version, err := l.run(l.needs).CombinedOutput()
			if err != nil {
				t.Skipf("needs %s: %v: %s", l.name, err, version)
			}
			t.Log(l.name, string(version))

			shorter := strings.Replace(l.limit, "60", "15", 1)
			turns := func(name string, server *servertest.Server) {
				round := strings.Replace(l.round, "TEXT", replaced(t, snippet(t, name), l.limit, shorter), 1)
				requireTurns(t, server, func() *exec.Cmd { return l.at(server.Addr(), strings.Repeat(round, rounds)) })
				wrong := strings.Replace(round, shorter, strings.Replace(shorter, "30", "0", 1), 1)
				end := run(t, server.Client(t), l.at(server.Addr(), wrong))
				require.Error(t, end.err, "an error of the server is one of the snippet: %v", end)
				require.Contains(t, end.output, "count must be", end)
			}
			server, also := servertest.StartModule(t), append(l.also, "", "")
			turns(l.name, server)
			requireRefund(t, server, func(addr string) *exec.Cmd { return l.at(addr, snippet(t, l.name)+"\n"+snippet(t, also[0])) })
			if also[1] != "" {
				end := run(t, emptied(t, server), l.at(server.Addr(), snippet(t, also[1])))
				require.NoError(t, end.err, end)
				require.Equal(t, "taken: 15\n", end.output, "of 20: %v", end)
			}
			if also[2] != "" {
				turns(also[2], servertest.Start(t, servertest.Options{}))
			}
		})
	}
}
