package clients_test

import (
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// requireOneRefund requires that a client does not send a refund again whose answer is lost,
// and fails.
func requireOneRefund(t *testing.T, command func(addr string) *exec.Cmd) {
	t.Helper()
	server := servertest.StartModule(t)
	output, err := command(servertest.LoseAnswer(t, server.Addr(), "cl.refund")).CombinedOutput()
	require.Equal(t, 1, callsOf(t, server.Client(t))["cl.refund"], "%s", output)
	require.Error(t, err, "%s", output)
}

// As the page says under "Send a refund once"; TestGoSnippets has the clients in Go.
func TestClientsSendARefundOnce(t *testing.T) {
	port := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		return port
	}
	t.Run("redis-cli", func(t *testing.T) {
		page.NeedRedisCLI(t)
		requireOneRefund(t, func(addr string) *exec.Cmd {
			return exec.Command("redis-cli", "-p", port(addr), "cl.refund", key, "15", "30", "60", "1")
		})
	})
	t.Run("redis-py", func(t *testing.T) {
		python := interpreter(t, "redis-py", redisPyVersion, "python3", "/usr/bin/python3")
		const option = "retry=Retry(NoBackoff(), 0)"
		require.Contains(t, clients(t), option)
		requireOneRefund(t, func(addr string) *exec.Cmd {
			return exec.Command(python, "-c", fmt.Sprintf("import redis\nfrom redis.retry import Retry\nfrom redis.backoff import NoBackoff\n"+
				"redis.Redis(port=%s, %s).execute_command('CL.REFUND', '%s', 15, 30, 60, 1)", port(addr), option, key))
		})
	})
	t.Run("node-redis", func(t *testing.T) {
		program := interpreter(t, "node-redis", nodeVersion, "node")
		requireOneRefund(t, func(addr string) *exec.Cmd {
			return node(program, fmt.Sprintf(`
				const client = require("redis").createClient({ url: "redis://%s" });
				client.on("error", () => {});
				client.connect().then(() => client.sendCommand(["CL.REFUND", "%s", "15", "30", "60", "1"]))
					.then(() => process.exit(0), () => setTimeout(() => process.exit(1), 500)); // it connects again`, addr, key))
		})
	})
	t.Run("phpredis", func(t *testing.T) {
		interpreter(t, "phpredis", phpVersion, "php")
		requireOneRefund(t, func(addr string) *exec.Cmd {
			return php(addr, fmt.Sprintf("$redis->rawCommand('CL.REFUND', '%s', 15, 30, 60, 1);", key))
		})
	})
}
