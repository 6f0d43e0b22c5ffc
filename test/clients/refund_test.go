package clients_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
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
