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
	"funnel/limiter/window"
)

// A call that comes after one with a later time counts from that time on.
func TestOvertakenCallIsMoved(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	early, late := &watch{start}, &watch{start.Add(30 * time.Second)}
	ask := func(watch *watch) bool {
		allowed, err := window.New(client, watch.now).IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 2)
		require.NoError(t, err)
		return allowed
	}
	require.True(t, ask(late))
	require.True(t, ask(early))
	for _, member := range members(t, client) {
		require.Equal(t, float64(late.UnixMicro()), member.Score)
	}
	late.Time = start.Add(time.Minute)
	require.False(t, ask(late))
	late.Time = start.Add(90 * time.Second)
	require.True(t, ask(late))
}

// A call that is removed between its two round trips is not counted, so it is limited.
func TestCallThatIsRemovedBeforeItIsMoved(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	late := &watch{start.Add(30 * time.Second)}
	ask := func() bool {
		allowed, err := window.New(client, late.now).IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 2)
		require.NoError(t, err)
		return allowed
	}
	require.True(t, ask())

	between := func() {
		late.Time = start.Add(time.Minute)
		require.True(t, ask(), "the overtaken call is gone, and only one is left")
	}
	slow := server.Client(t)
	slow.AddHook(before{"zadd", between})
	overtaken := window.New(slow, func() time.Time { return start })
	allowed, err := overtaken.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 2)
	require.NoError(t, err)
	require.False(t, allowed)
	require.Len(t, members(t, client), 2)
}

// before runs something before each command of that name.
type before struct {
	name string
	run  func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == b.name {
			b.run()
		}
		return next(ctx, command)
	}
}

// One clock is ahead. No more calls are allowed than the package comment says: maxCount in any period less the distance of the clocks.
func TestClocksApart(t *testing.T) {
	const (
		period   = time.Minute
		apart    = 20 * time.Second
		maxCount = 3
	)
	client, right := connect(t), &watch{start}
	clients := []*window.Windows{
		window.New(client, right.now),
		window.New(client, func() time.Time { return right.Add(apart) }),
	}
	var allowed []time.Time
	for i := range 630 {
		// The one, then in the middle of a period the other, then both in turn.
		which := [3]int{0, 1, i % 2}[i/210]
		ok, err := clients[which].IsActionAllowed(context.Background(), "laoqian", "reply", period, maxCount)
		require.NoError(t, err)
		if ok {
			allowed = append(allowed, right.Time)
		}
		right.Time = right.Add(3 * time.Second)
	}
	least := period
	for i := range allowed[maxCount:] {
		least = min(least, allowed[i+maxCount].Sub(allowed[i]))
	}
	require.Less(t, least, period, "the clock that is ahead is noticed")
	require.GreaterOrEqual(t, least, period-apart)
	require.Greater(t, len(allowed), maxCount*28)
}

// go-redis sends a command again when it has not seen the reply.
func TestRepeatedCallCountsOnce(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{})
	var lossy atomic.Bool
	unlucky := server.Client(t, func(options *redis.Options) {
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
		require.Len(t, members(t, unlucky), min(i+1, 3))
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
