package window_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter/textbook/window"
)

// go-redis sends a command again when it has not seen the reply.
func TestRepeatedCallCountsOnce(t *testing.T) {
	ctx := context.Background()
	var lossy atomic.Bool
	unlucky := servertest.Start(t, servertest.Options{}).Client(t, func(options *redis.Options) {
		options.MaxRetries = 3
		options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := net.Dial(network, address)
			return &lossyConnection{connection, &lossy}, err
		}
	})
	require.NoError(t, unlucky.Ping(ctx).Err())

	windows := window.New(unlucky, nil)
	for i := range 4 {
		lossy.Store(true)
		allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Hour, 3)
		require.NoError(t, err)
		require.False(t, lossy.Load(), "the reply was lost")
		require.Equal(t, i < 3, allowed)
		require.EqualValues(t, min(i+1, 3), unlucky.ZCard(ctx, window.Key("laoqian", "reply")).Val())
	}
}

// A lossyConnection loses the next reply, and with it the connection.
type lossyConnection struct {
	net.Conn
	lossy *atomic.Bool
}

func (c *lossyConnection) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	if err == nil && c.lossy.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, errors.New("the reply is lost")
	}
	return n, err
}
