package command_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestCapacityZeroNamesRedisCell: whoever sends it is most likely a client of redis-cell,
// so the error says so.
func TestCapacityZeroNamesRedisCell(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for _, command := range append([]string{"cl.throttle"}, funnelsCommands...) {
		err := client.Do(ctx, servertest.Words(command+" k 0 1 1 1")...).Err()
		require.ErrorContains(t, err, "ERR capacity must be an integer from 1 to 9223372036854775807", command)
		require.ErrorContains(t, err, "compat redis-cell", command)
	}
	for _, command := range funnelsCommands {
		err := client.Do(ctx, servertest.Words(command+" j 1 1 1 1 k 0 1 1 1")...).Err()
		require.ErrorContains(t, err, "ERR funnel 2: capacity must be an integer from 1 to 9223372036854775807", command)
		require.ErrorContains(t, err, "compat redis-cell", command)
	}
}
