package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// In redis-cell mode a capacity of 15 is still 15.
func TestCapacityIsWhatWasMeantInRedisCellMode(t *testing.T) {
	l := limiter.New(withModule(t, "compat", "redis-cell").Client(t))
	for call := 1; call <= 20; call++ {
		result := allow(t, l, "key", fifteenPerDay)
		require.Equal(t, call > 15, result.Limited(), "call %d", call)
		require.Equal(t, max(0, 15-call), result.Remaining, "call %d", call)
	}
	require.Equal(t, 0, allow(t, l, "one", limiter.PerDay(1)).Remaining)
	require.True(t, allow(t, l, "one", limiter.PerDay(1)).Limited())
}

// A change of the compat mode is detected at the next reply.
func TestModeOfTheModuleMayChange(t *testing.T) {
	server := withModule(t)
	client := server.Client(t, retrying)
	l := limiter.New(client)
	for _, mode := range []string{"redis-cell", "none"} {
		require.Equal(t, 14, allow(t, l, mode+" before", fifteenPerDay).Remaining)
		server.Reconfigure(func(options *servertest.Options) { options.ModuleArguments = []string{"compat", mode} })
		server.Stop()
		server.Restart(t)
		allow(t, l, mode+" finds out", fifteenPerDay)
		require.Equal(t, 14, allow(t, l, mode+" after", fifteenPerDay).Remaining)
	}
}

// The module is loaded and unloaded, and the script flushed, while a funnel fills: no
// call fails and no token is lost.
func TestModuleIsLoadedAndUnloaded(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{Config: []string{"--save", "", "--appendonly", "yes"}})
	client := server.Client(t, retrying)
	come := func() { require.NoError(t, client.Do(ctx, "module", "load", servertest.Module(t)).Err()) }
	goAway := func() { // with all but the data
		server.Stop()
		server.Restart(t)
	}
	come()
	l := limiter.New(client)
	remaining := 15
	once := func(path limiter.Path) {
		t.Helper()
		remaining--
		result := allow(t, l, "key", fifteenPerDay)
		require.Equal(t, path, result.Path)
		require.Equal(t, remaining, result.Remaining)
	}
	once(limiter.PathModule)
	goAway()
	once(limiter.PathScript)
	once(limiter.PathScript)
	require.NoError(t, client.ScriptFlush(ctx).Err())
	once(limiter.PathScript)
	come()
	once(limiter.PathScript) // the Limiter does not know yet
	require.NoError(t, client.ScriptFlush(ctx).Err())
	once(limiter.PathModule)

	// The same for AllowMany.
	many := func(path limiter.Path) {
		t.Helper()
		results, err := l.AllowMany(ctx, []limiter.Request{{"key", fifteenPerDay, 1}, {"key", fifteenPerDay, 1}})
		require.NoError(t, err)
		for _, result := range results {
			remaining--
			require.Equal(t, path, result.Path)
			require.Equal(t, remaining, result.Remaining)
		}
	}
	many(limiter.PathModule)
	goAway()
	many(limiter.PathScript)
	require.NoError(t, client.ScriptFlush(ctx).Err())
	many(limiter.PathScript)
	require.Equal(t, 9-6, remaining)
}

// retrying turns retries on, for restarts of the server.
func retrying(options *redis.Options) { options.MaxRetries = 3 }

// Calls by module and calls by script together get the capacity.
func TestModuleAndScriptShareFunnels(t *testing.T) {
	ctx := context.Background()
	client := withModule(t).Client(t)
	l := limiter.New(client)
	script := redis.NewScript(limiter.Script())
	var byModule, byScript atomic.Int64
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range 100 {
				result, err := l.Allow(ctx, "key", limiter.PerDay(1000))
				if err != nil {
					t.Error(err)
				}
				byModule.Add(int64(result.Allowed))
			}
		})
		group.Go(func() {
			for range 100 {
				reply, err := script.Run(ctx, client, []string{"key"}, "reserve", 1000, 1000, 24*60*60, 1).Slice()
				if err != nil {
					t.Error(err)
				} else if reply[0] == int64(0) {
					byScript.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1000, byModule.Load()+byScript.Load())
	require.NotZero(t, byModule.Load())
	require.NotZero(t, byScript.Load())
}

// A user with +cl.throttle alone, without COMMAND INFO, can use the module.
func TestTheLeastPermissionsSuffice(t *testing.T) {
	ctx := context.Background()
	server := withModule(t)
	require.NoError(t, server.Client(t).Do(ctx, "acl", "setuser", "app", "on", ">secret", "~user:*", "+cl.throttle").Err())
	l := limiter.New(server.Client(t, func(options *redis.Options) {
		options.Username, options.Password = "app", "secret"
	}))
	require.Equal(t, limiter.PathModule, allow(t, l, "user:42", fifteenPerDay).Path)
	_, err := l.Allow(ctx, "other:42", fifteenPerDay)
	require.ErrorContains(t, err, "NOPERM")
}

// A cluster of which all, some or no primaries have the module.
func TestCluster(t *testing.T) {
	for _, c := range []struct {
		name       string
		withModule int // nodes
		path       limiter.Path
	}{
		{"the module on all", 6, limiter.PathModule},
		{"the module on some", 1, limiter.PathScript},
		{"no module", 0, limiter.PathScript},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{})
			nodes := cluster.Nodes() // primaries first
			for _, node := range nodes[:c.withModule] {
				require.NoError(t, node.Direct.Do(ctx, "module", "load", servertest.Module(t)).Err())
			}
			l := limiter.New(cluster.Client(t))
			var requests []limiter.Request
			for i := range 100 {
				requests = append(requests, limiter.Request{Key: fmt.Sprint("user:", i), Limit: fifteenPerDay, Quantity: 10})
			}
			for round := range 3 {
				results, err := l.AllowMany(ctx, requests)
				require.NoError(t, err)
				for i, result := range results {
					require.Equal(t, round > 0, result.Limited(), "round %d, request %d", round, i)
					require.Equal(t, 5, result.Remaining)
					require.Equal(t, c.path, result.Path)
				}
				for _, request := range requests[:20] {
					result := allow(t, l, request.Key+" alone", limiter.PerDay(2))
					require.Equal(t, round > 1, result.Limited())
					require.Equal(t, c.path, result.Path)
				}
			}
		})
	}
}

func TestRingOfWhichOneHasTheModule(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": withModule(t).Addr(),
		"two": bare(t).Addr(),
	}})
	t.Cleanup(func() { ring.Close() })
	l := limiter.New(ring)
	for i := range 50 {
		for call := range 3 {
			result := allow(t, l, fmt.Sprint("user:", i), limiter.PerDay(2))
			require.Equal(t, call > 1, result.Limited())
			require.Equal(t, limiter.PathScript, result.Path)
		}
	}
}

// A failover by Sentinel, from a primary with the module to a replica without: what
// was replicated counts, and the script takes over.
func TestFailoverToAServerWithoutTheModule(t *testing.T) {
	ctx := context.Background()
	primary := withModule(t)
	direct := primary.Client(t)
	replica := servertest.Start(t, servertest.Options{Config: []string{
		"--save", "", "--replicaof", strings.ReplaceAll(primary.Addr(), ":", " ")}})
	require.Eventually(t, func() bool {
		return strings.Contains(direct.Info(ctx, "replication").Val(), "state=online")
	}, servertest.Patience, 10*time.Millisecond)
	var addresses []string
	for _, sentinel := range servertest.StartSentinels(t, 3, 2, time.Second, primary, 1) {
		addresses = append(addresses, sentinel.Addr())
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: servertest.SentinelName, SentinelAddrs: addresses, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })

	l := limiter.New(client)
	for range 10 {
		require.Equal(t, limiter.PathModule, allow(t, l, "key", fifteenPerDay).Path)
	}
	require.EqualValues(t, 1, direct.Wait(ctx, 1, servertest.Patience).Val())
	primary.Kill()
	var result limiter.Result
	require.Eventually(t, func() bool {
		var err error
		result, err = l.Allow(ctx, "key", fifteenPerDay)
		return err == nil
	}, servertest.Patience, 20*time.Millisecond)
	require.Equal(t, limiter.PathScript, result.Path)
	require.Equal(t, 4, result.Remaining)
	require.NotEmpty(t, replica.Client(t).Get(ctx, "key").Val())
}

// A replica replies READONLY, by module and by script.
func TestReplicasReplyAnError(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		allow(t, l, "key", fifteenPerDay)
		require.NoError(t, client.ReplicaOf(context.Background(), "127.0.0.1", "1").Err())
		_, err := l.Allow(context.Background(), "key", fifteenPerDay)
		require.ErrorContains(t, err, "READONLY")
	})
}
