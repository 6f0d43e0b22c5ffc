package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A late client holds reservations back until it is released.
type late struct {
	*redis.Client
	release chan struct{}
}

func (c *late) Process(ctx context.Context, command redis.Cmder) error {
	if command.Name() == "cl.reserve" {
		<-c.release
		ctx = context.Background()
	}
	return c.Client.Process(ctx, command)
}

// A decision without Redis has no receipt of an answer that comes after it.
func TestLateAnswersHaveNoReceipt(t *testing.T) {
	for _, policy := range []limiter.Failure{limiter.FailOpen, limiter.FailLocal} {
		ctx, client := context.Background(), servertest.StartClient(t)
		rdb := &late{client, make(chan struct{})}
		l := limiter.New(rdb, limiter.WithTimeout(50*time.Millisecond), limiter.OnFailure(policy), limiter.WithHook(
			func(_ context.Context, event limiter.Event) {
				if event.Cause != nil {
					close(rdb.release)
					servertest.Eventually(t, "it has been executed", func() bool { return client.Exists(ctx, "key").Val() > 0 })
					time.Sleep(20 * time.Millisecond) // the answer is read
				}
			}))
		_, err := l.Peek(ctx, "key", fifteenPerDay) // learns how the capacity is read
		require.NoError(t, err)
		given, err := l.AllowN(ctx, "key", fifteenPerDay, 10)
		require.NoError(t, err)
		stored := client.Get(ctx, "key").Val()
		settled, err := l.Settle(ctx, &given, 0)
		require.NoError(t, err)
		require.Equal(t, policy == limiter.FailOpen, settled == given, "nothing is given back")
		require.Equal(t, stored, client.Get(ctx, "key").Val())
	}
}
