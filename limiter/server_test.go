package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// retrying turns retries on, for restarts of the server.
func retrying(options *redis.Options) { options.MaxRetries = 3 }

// A capacity is what was meant in redis-cell mode, too, and a change of the mode is
// detected at the next reply.
func TestModeOfTheModuleMayChange(t *testing.T) {
	server := servertest.StartModule(t)
	l := limiter.New(server.Client(t, retrying))
	for _, mode := range []string{"none", "redis-cell", "none"} {
		server.Reconfigure(func(options *servertest.Options) { options.ModuleArguments = []string{"compat", mode} })
		server.Stop()
		server.Restart(t)
		allow(t, l, mode+" finds out", fifteenPerDay)
		require.Equal(t, 14, allow(t, l, mode+" after", fifteenPerDay).Remaining)
		require.Equal(t, 0, allow(t, l, mode+" one", limiter.PerDay(1)).Remaining)
		require.True(t, allow(t, l, mode+" one", limiter.PerDay(1)).Limited())
	}
}

// The module is loaded and unloaded, and the script flushed, while a funnel fills: no
// call fails and no token is lost.
func TestModuleIsLoadedAndUnloaded(t *testing.T) {
	ctx := context.Background()
	server := bare(t, "--save", "", "--appendonly", "yes")
	client := server.Client(t, retrying)
	l := limiter.New(client)
	nothing := func() {}
	load := func() { require.NoError(t, client.Do(ctx, "module", "load", servertest.Module(t)).Err()) }
	restart := func() { // with all but the module
		server.Stop()
		server.Restart(t)
	}
	flush := func() { require.NoError(t, client.ScriptFlush(ctx).Err()) }
	remaining := 30
	for i, step := range []struct {
		change func()
		path   limiter.Path
	}{
		{load, limiter.PathModule},
		{restart, limiter.PathScript},
		{nothing, limiter.PathScript},
		{flush, limiter.PathScript},
		{load, limiter.PathScript}, // the Limiter does not know yet
		{flush, limiter.PathModule},
	} {
		step.change()
		remaining--
		result := allow(t, l, "key", limiter.PerDay(30))
		require.Equal(t, step.path, result.Path, i)
		require.Equal(t, remaining, result.Remaining, i)
	}
	for i, step := range []func(){nothing, restart, flush} {
		step()
		results, err := l.AllowMany(ctx, []limiter.Request{{"key", limiter.PerDay(30), 1}, {"key", limiter.PerDay(30), 1}})
		require.NoError(t, err)
		for _, result := range results {
			remaining--
			require.Equal(t, i == 0, result.Path == limiter.PathModule, i)
			require.Equal(t, remaining, result.Remaining, i)
		}
	}
}

// A user who may not ask COMMAND INFO, or a server without it, needs no more than
// the commands that decide.
func TestTheLeastPermissionsSuffice(t *testing.T) {
	for path, c := range map[limiter.Path]struct{ module, rules string }{
		limiter.PathModule: {servertest.Module(t), "+cl.throttle"},
		limiter.PathScript: {"", "+evalsha +eval +set +get +time"},
	} {
		server := servertest.Start(t, servertest.Options{Module: c.module})
		rules := append(strings.Fields(c.rules), "on", ">secret", "~user:*")
		require.NoError(t, server.Client(t).ACLSetUser(context.Background(), "app", rules...).Err())
		l := limiter.New(server.Client(t, func(options *redis.Options) {
			options.Username, options.Password = "app", "secret"
		}))
		require.Equal(t, path, allow(t, l, "user:42", fifteenPerDay).Path)
		_, err := l.Allow(context.Background(), "other:42", fifteenPerDay)
		require.ErrorContains(t, err, "NOPERM")
	}
	withoutCommand := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t), Config: []string{"--rename-command", "COMMAND", ""}})
	require.Equal(t, limiter.PathModule, allow(t, limiter.New(withoutCommand.Client(t)), "key", fifteenPerDay).Path)
}

// A cluster of which all or some primaries have the module, and a ring.
func TestClusterAndRing(t *testing.T) {
	cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": servertest.StartModule(t).Addr(),
		"two": bare(t).Addr(),
	}})
	t.Cleanup(func() { ring.Close() })
	load := func(nodes []*servertest.ClusterNode) func() {
		return func() {
			for _, node := range nodes {
				require.NoError(t, node.Direct.Do(context.Background(), "module", "load", servertest.Module(t)).Err())
			}
		}
	}
	for _, c := range []struct {
		name    string
		prepare func()
		rdb     redis.UniversalClient
		path    limiter.Path
	}{
		{"no primary", func() {}, cluster.Client(t), limiter.PathScript},
		{"one primary", load(cluster.Primaries[:1]), cluster.Client(t), limiter.PathScript},
		{"all primaries", load(cluster.Primaries[1:]), cluster.Client(t), limiter.PathModule},
		{"a ring of which one has it", func() {}, ring, limiter.PathScript},
	} {
		c.prepare()
		l := limiter.New(c.rdb)
		var requests []limiter.Request
		for i := range 50 {
			requests = append(requests, limiter.Request{Key: fmt.Sprint(c.name, i), Limit: fifteenPerDay, Quantity: 10})
		}
		for round := range 2 {
			results, err := l.AllowMany(context.Background(), requests)
			require.NoError(t, err, c.name)
			for i, result := range results {
				require.Equal(t, round > 0, result.Limited(), "%s: round %d, request %d", c.name, round, i)
				require.Equal(t, 5, result.Remaining, c.name)
				require.Equal(t, c.path, result.Path, c.name)
			}
			for _, request := range requests {
				result := allow(t, l, request.Key+" alone", fifteenPerDay)
				require.Equal(t, 14-round, result.Remaining, c.name)
				require.Equal(t, c.path, result.Path, c.name)
			}
		}
	}
}

// A node that is down says nothing about the others.
func TestRingOfWhichOneIsDown(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"one": servertest.StartModule(t).Addr(), "two": "127.0.0.1:1"},
		HeartbeatFrequency: time.Hour, MaxRetries: -1,
		NewClient: func(options *redis.Options) *redis.Client {
			options.DialerRetries = 1
			return redis.NewClient(options)
		},
	})
	t.Cleanup(func() { ring.Close() })
	l := limiter.New(ring)
	decided := 0
	for i := range 20 {
		if result, err := l.Allow(context.Background(), fmt.Sprint("user:", i), fifteenPerDay); err == nil {
			require.Equal(t, limiter.PathModule, result.Path)
			decided++
		}
	}
	require.NotZero(t, decided)
}
