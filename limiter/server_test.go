package limiter_test

import (
	"context"
	"fmt"
	"slices"
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

// A change of how the module reads the capacity is noticed with the first reply.
func TestReadingOfTheCapacityMayChange(t *testing.T) {
	server, ctx := servertest.StartModule(t), context.Background()
	l := limiter.New(server.Client(t, retrying))
	for i, mode := range []string{"none", "redis-cell", "none", "redis-cell", "none"} {
		server.Reconfigure(func(options *servertest.Options) { options.ModuleArguments = []string{"compat", mode} })
		server.Stop()
		server.Restart(t)
		// The first reply is of the other capacity, and the tokens are taken.
		charged, err := l.Charge(ctx, fmt.Sprint("charged ", i), fifteenPerDay, 14+i)
		require.NoError(t, err)
		require.Equal(t, []int{14 + i, max(0, 1-i)}, []int{charged.Allowed, charged.Remaining})
		require.Equal(t, i > 1, charged.RetryAfter != limiter.NoRetry, "it is overfull")
		require.InDelta(t, max(0, i-1)*96, charged.RetryAfter.Minutes(), 1)
		require.Equal(t, 0, allow(t, l, mode+" one", perDay(1)).Remaining)
		require.Equal(t, 14, allow(t, l, mode, fifteenPerDay).Remaining)
		require.True(t, allow(t, l, mode+" one", perDay(1)).Limited())
		whole, _, err := l.AllowAll(ctx, limiter.Request{mode, fifteenPerDay, 14}, limiter.Request{mode + " two", perDay(2), 2})
		require.NoError(t, err)
		require.False(t, whole.Limited())
	}
}

// How a server reads the capacity is learnt by the command that is about to be sent, with
// quantity 0, once. No server gets a wrong question, and requests are decided in order.
func TestReadingOfTheCapacityIsAskedFor(t *testing.T) {
	ctx, all := context.Background(), []string{"+@all", "~*"}
	for _, c := range []struct{ mode, command, want string }{
		{"none", "reserve", "cl.reserve k 1 1 86400 0, cl.reserve k 1 1 86400 1"},
		{"redis-cell", "reserve", "cl.reserve k 1 1 86400 0, cl.reserve k 0 1 86400 1"},
		{"none", "peek", "cl.peek k 1 1 86400 1"},
		{"redis-cell", "peek", "cl.peek k 1 1 86400 1, cl.peek k 0 1 86400 1"},
		{"redis-cell", "take", "cl.take k 1 1 86400 0, cl.take k 0 1 86400 1"},
		{"redis-cell", "charge", "cl.charge k 1 1 86400 0, cl.charge k 0 1 86400 1"},
		{"redis-cell", "refund", "cl.refund k 1 1 86400 0, cl.refund k 0 1 86400 1"},
		{"none", "throttle", "cl.throttle k 1 1 86400 0, cl.throttle k 1 1 86400 1"},
		{"redis-cell", "throttle", "cl.throttle k 1 1 86400 0, cl.throttle k 0 1 86400 1"},
		{"none", "many", "cl.reserve k 1 1 86400 0, cl.reserve k 1 1 86400 1, cl.reserve l 2 2 86400 2"},
		{"redis-cell", "many", "cl.reserve k 1 1 86400 0, cl.reserve k 0 1 86400 1, cl.reserve l 1 2 86400 2"},
	} {
		t.Run(c.mode+" "+c.command, func(t *testing.T) {
			server, rules := servertest.StartModule(t, "compat", c.mode), all
			if c.command == "throttle" {
				rules = []string{"+cl.throttle", "~*"}
			}
			admin, l := server.Client(t), limiter.New(as(t, server, rules...))
			require.NoError(t, admin.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
			switch ask := commands[c.command]; {
			case c.command == "many":
				_, err := l.AllowMany(ctx, limiter.Request{"k", perDay(1), 1}, limiter.Request{"l", perDay(2), 2})
				require.NoError(t, err)
			case ask == nil:
				require.False(t, allow(t, l, "k", perDay(1)).Limited())
			default:
				_, err := ask(l, ctx, "k", perDay(1), 1)
				require.NoError(t, err)
			}
			var sent []string
			for _, entry := range slices.Backward(admin.SlowLogGet(ctx, -1).Val()) {
				if words := strings.Join(entry.Args, " "); strings.HasPrefix(words, "cl.") {
					sent = append(sent, words)
				}
			}
			require.Equal(t, c.want, strings.Join(sent, ", "))
			require.Contains(t, admin.Info(ctx, "everything").Val(), "funnel_errors:0")
			many, err := limiter.New(server.Client(t)).AllowMany(ctx, limiter.Request{"m", perDay(2), 2}, limiter.Request{"m", perDay(2), 1})
			require.NoError(t, err)
			require.Equal(t, []int{2, 0}, []int{many[0].Allowed, many[1].Allowed}, "in order")
		})
	}
}

// A server that has CL.THROTTLE alone, as redis-cell, Dragonfly and funnel 0.1 do, here
// because the user may call nothing else, reads the capacity in either way.
func TestThrottleAlone(t *testing.T) {
	for _, mode := range []string{"none", "redis-cell"} {
		t.Run(mode, func(t *testing.T) {
			ctx, server := context.Background(), servertest.StartModule(t, "compat", mode)
			rdb := as(t, server, "~user:*", "+cl.throttle")
			for _, fresh := range []bool{true, false} {
				l := limiter.New(rdb)
				ask := func(key string, limit limiter.Limit, quantity int) limiter.Result {
					if fresh {
						l = limiter.New(rdb)
					}
					result, err := l.AllowN(ctx, "user:"+key, limit, quantity)
					require.NoError(t, err)
					require.Equal(t, limiter.PathModule, result.Path)
					return result
				}
				require.NoError(t, server.Client(t).FlushAll(ctx).Err())
				require.Equal(t, 12, ask("key", fifteenPerDay, 3).Remaining)
				require.Equal(t, 0, ask("key", fifteenPerDay, 12).Remaining)
				require.Equal(t, 96*time.Minute, ask("key", fifteenPerDay, 1).RetryAfter.Round(time.Minute))
				require.Equal(t, limiter.NoRetry, ask("key", fifteenPerDay, 16).RetryAfter)
				require.Equal(t, 0, ask("one", perDay(1), 1).Remaining)
				require.True(t, ask("one", perDay(1), 1).Limited())

				// Seconds are rounded up to 4.
				ask("third", limiter.Per(3, 10*time.Second).Burst(1), 1)
				limited := ask("third", limiter.Per(3, 10*time.Second).Burst(1), 1)
				require.True(t, limited.Limited())
				require.LessOrEqual(t, limited.RetryAfter, 10*time.Second/3)
			}

			// What CL.THROTTLE cannot do is denied, and so are other keys.
			l := limiter.New(rdb)
			_, err := l.Charge(ctx, "user:key", fifteenPerDay, 1)
			require.ErrorContains(t, err, "NOPERM")
			_, err = l.AllowMany(ctx, limiter.Request{"other", fifteenPerDay, 1}, limiter.Request{"user:many", perDay(1), 1})
			require.ErrorContains(t, err, "limiter: key \"other\": NOPERM")
			require.NotContains(t, err.Error(), "user:many")
		})
	}
}

// The least permissions, for each way; a command that is denied is not tried each time.
func TestPermissions(t *testing.T) {
	ctx, server := context.Background(), servertest.StartModule(t)
	for path, rules := range map[limiter.Path][]string{
		limiter.PathModule: {"+cl.reserve", "+cl.take", "+cl.peek", "+cl.charge", "+cl.refund"},
		limiter.PathScript: {"+eval", "+evalsha", "+eval_ro", "+evalsha_ro", "+time", "+get", "+set", "+del"},
	} {
		counted := &counting{Client: as(t, server, append(rules, "~user:*")...)}
		l := limiter.New(counted)
		for i := range 3 {
			before := counted.trips.Load()
			for _, ask := range commands {
				result, err := ask(l, ctx, "user:42", fifteenPerDay, 1)
				require.NoError(t, err)
				require.Equal(t, path, result.Path)
			}
			if i > 0 {
				require.EqualValues(t, before+int64(len(commands)), counted.trips.Load(), "one each")
			}
		}
		_, err := l.Allow(ctx, "other:42", fifteenPerDay)
		require.ErrorContains(t, err, "NOPERM")
	}
}

// A module that is loaded is noticed within a minute, one that is gone and a script that
// was flushed at once: no call fails and no token is lost.
func TestModuleComesAndGoes(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	server := bare(t, "--save", "", "--appendonly", "yes")
	client := server.Client(t, retrying)
	l := limiter.New(client)
	limiter.SetNow(l, func() time.Time { return now })
	nothing := func() {}
	load := func() { require.NoError(t, client.Do(ctx, "module", "load", servertest.Module(t)).Err()) }
	restart := func() { // with all but the module
		server.Stop()
		server.Restart(t)
	}
	flush := func() { require.NoError(t, client.ScriptFlush(ctx).Err()) }
	minute := func() { now = now.Add(time.Minute) }
	remaining := 100
	for i, step := range []struct {
		change func()
		path   limiter.Path
	}{
		{nothing, limiter.PathScript},
		{flush, limiter.PathScript},
		{load, limiter.PathScript},
		{minute, limiter.PathModule},
		{flush, limiter.PathModule},
		{restart, limiter.PathScript},
		{nothing, limiter.PathScript},
		{minute, limiter.PathScript},
		{load, limiter.PathScript},
	} {
		step.change()
		for _, many := range []bool{i%2 == 0, i%2 != 0} {
			remaining--
			result := limiter.Result{}
			if many {
				results, err := l.AllowMany(ctx, limiter.Request{"key", perDay(100), 1})
				require.NoError(t, err)
				result = results[0]
			} else {
				result = allow(t, l, "key", perDay(100))
			}
			require.Equal(t, step.path, result.Path, i)
			require.Equal(t, remaining, result.Remaining, i)
		}
	}
}

// With one way only, a server that lacks the module has failed, and one that has it is asked by
// the script.
func TestOneWayOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		for way, option := range only {
			l, want := limiter.New(client, option, limiter.OnFailure(limiter.FailOpen)), way
			if way == limiter.PathModule {
				want = map[limiter.Path]limiter.Path{limiter.PathModule: way, limiter.PathScript: limiter.PathOpen}[path]
			}
			for range 2 {
				require.Equal(t, want, allow(t, l, "key", fifteenPerDay).Path)
				results, err := l.AllowMany(context.Background(), limiter.Request{"key", fifteenPerDay, 1}, limiter.Request{"key", fifteenPerDay, 1})
				require.NoError(t, err)
				require.Equal(t, want, results[1].Path)
			}
		}
	})
}
