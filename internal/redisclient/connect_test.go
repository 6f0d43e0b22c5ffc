package redisclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func newClient(t *testing.T, targets redis.UniversalOptions) *Client {
	c, err := New(Settings{Targets: &targets, Timeout: servertest.Patience, DialTimeout: servertest.Patience})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Connect fails at once for a user who cannot log in, or who may not run the commands, because
// trying again would not help. A user who may use other keys only is connected.
func TestConnectAsUsers(t *testing.T) {
	server := servertest.StartModule(t)
	for _, user := range []string{"app on >secret ~shop:* +cl.peek", "powerless on >secret ~*"} {
		servertest.Call(t, server.Client(t), "acl setuser "+user)
	}
	for name, c := range map[string]struct{ user, password, refusal string }{
		"the default user":                    {},
		"a user with other keys":              {user: "app", password: "secret"},
		"a wrong password":                    {"app", "wrong", "WRONGPASS"},
		"an unknown user":                     {"nobody", "secret", "WRONGPASS"},
		"a user who may not run the commands": {"powerless", "secret", "NOPERM"},
	} {
		client := newClient(t, redis.UniversalOptions{Addrs: []string{server.Addr()}, Username: c.user, Password: c.password})
		err := client.Connect(t.Context(), "probe", servertest.Patience)
		if c.refusal == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrRefused, name)
		require.ErrorContains(t, err, c.refusal, name)
	}
}

// Connect tries until Redis answers, until the time is over, or until its caller gives up.
func TestConnectWhileRedisIsDown(t *testing.T) {
	server := servertest.StartModule(t)
	client := newClient(t, redis.UniversalOptions{Addrs: []string{server.Addr()}})
	server.Kill()
	err := client.Connect(t.Context(), "probe", 50*time.Millisecond)
	require.ErrorIs(t, err, limiter.ErrUnavailable, "the last attempt says why")
	require.NotErrorIs(t, err, ErrRefused)

	stopping := errors.New("the program ends")
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { stop(stopping) })
	require.Equal(t, stopping, client.Connect(ctx, "probe", time.Hour))

	connected := make(chan error, 1)
	go func() { connected <- client.Connect(t.Context(), "probe", servertest.Patience) }()
	server.Restart(t)
	require.NoError(t, <-connected, "Redis is back")
}

// In a cluster Connect makes a call to each node, so that each has a connection.
func TestConnectToEachNode(t *testing.T) {
	cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{Module: servertest.Module(t)})
	client := newClient(t, redis.UniversalOptions{Addrs: []string{cluster.Primaries[0].Addr()}, IsClusterMode: true})
	require.NoError(t, client.Connect(t.Context(), "probe", servertest.Patience))
	for i, node := range cluster.Primaries {
		commands, err := node.Direct.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		require.Contains(t, commands, "cmdstat_cl.peek:calls=1", "node %d", i)
	}
}
