package clients_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// requireRefund requires that a client reserves a token and gives it back with its receipt;
// and, when the answer is lost, that it fails, and does not send the refund again.
func requireRefund(t *testing.T, command func(addr string) *exec.Cmd) {
	t.Helper()
	ctx := context.Background()
	server := servertest.StartModule(t)
	client := server.Client(t)
	require.NoError(t, client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	output, err := command(server.Addr()).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Zero(t, client.Exists(ctx, key).Val())
	receipts := 0
	for _, logged := range client.SlowLogGet(ctx, -1).Val() {
		if line := strings.Join(logged.Args, " "); strings.HasPrefix(strings.ToLower(line), "cl.refund") {
			require.Regexp(t, `user:42 15 30 60 1 \d{19}$`, line)
			receipts++
		}
	}
	require.Equal(t, 1, receipts)

	output, err = command(servertest.LoseAnswer(t, server.Addr(), "cl.refund")).CombinedOutput()
	require.Equal(t, 2, callsOf(t, client)["cl.refund"], "%s", output)
	require.Error(t, err, "%s", output)
}

// requireTaken requires that a client takes the 15 tokens that fit, when it asks for 20.
func requireTaken(t *testing.T, command func(addr string) *exec.Cmd) {
	t.Helper()
	output, err := command(servertest.StartModule(t).Addr()).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, "taken: 15\n", string(output))
}

// TestClientsRefundAndTake: what else the page shows; TestGoSnippets has the clients in Go.
// That a refund is sent once is under "Send a refund once".
func TestClientsRefundAndTake(t *testing.T) {
	port := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		return port
	}
	const option = "retry=Retry(NoBackoff(), 0)"
	require.Contains(t, clients(t), option)
	for _, c := range []struct {
		name, refund, take string
		run                func(t *testing.T) func(addr, text string) *exec.Cmd
	}{
		{"redis-cli", "redis-cli-refund", "redis-cli-take", func(t *testing.T) func(addr, text string) *exec.Cmd {
			page.NeedRedisCLI(t)
			return func(addr, text string) *exec.Cmd {
				return exec.Command("bash", "-e", "-c", "redis-cli() { command redis-cli -e -p "+port(addr)+" \"$@\"; }\n"+text)
			}
		}},
		{"redis-py", "redis-py-refund", "redis-py-take", func(t *testing.T) func(addr, text string) *exec.Cmd {
			python := interpreter(t, "redis-py", redisPyVersion, "python3", "/usr/bin/python3")
			return func(addr, text string) *exec.Cmd {
				return exec.Command(python, "-c", fmt.Sprintf("import redis, time\nfrom redis.retry import Retry\n"+
					"from redis.backoff import NoBackoff\nr = redis.Redis(port=%s, %s)\n%s", port(addr), option, text))
			}
		}},
		{"node-redis", "node-redis-refund", "node-redis-take", func(t *testing.T) func(addr, text string) *exec.Cmd {
			program := interpreter(t, "node-redis", nodeVersion, "node")
			return func(addr, text string) *exec.Cmd { // it connects again: half a second to do so
				return node(program, fmt.Sprintf(`
					const client = require("redis").createClient({ url: "redis://%s" });
					const { setTimeout } = require("node:timers/promises");
					client.on("error", () => {});
					(async () => { await client.connect(); %s })()
						.then(() => process.exit(0), () => setTimeout(500).then(() => process.exit(1)));`, addr, text))
			}
		}},
		{"phpredis", "phpredis-refund", "phpredis-take", func(t *testing.T) func(addr, text string) *exec.Cmd {
			interpreter(t, "phpredis", phpVersion, "php")
			return php
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := c.run(t)
			requireRefund(t, func(addr string) *exec.Cmd {
				return command(addr, snippet(t, c.name)+"\n"+snippet(t, c.refund))
			})
			requireTaken(t, func(addr string) *exec.Cmd { return command(addr, snippet(t, c.take)) })
		})
	}
}
