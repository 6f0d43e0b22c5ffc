package limiter_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A server that has CL.THROTTLE alone, and allows one token more than the capacity that it is
// sent: the module with its other commands hidden, and redis-cell where FUNNEL_PEER names it.
// It is sent one less, and asked for the other commands once a minute. The script decides all
// that CL.THROTTLE cannot, by the same funnels.
func TestRedisCell(t *testing.T) {
	t.Run("compat", func(t *testing.T) { askRedisCell(t, servertest.StartModule(t, "compat", "redis-cell")) })
	if peer := os.Getenv("FUNNEL_PEER"); peer != "" {
		t.Run("redis-cell", func(t *testing.T) { askRedisCell(t, servertest.Start(t, servertest.Options{Module: peer})) })
	}
}

func askRedisCell(t *testing.T, server *servertest.Server) {
	type L = *limiter.Limiter
	type R = limiter.Result
	address, sent := servertest.HideCommands(t, server.Addr(), "cl.reserve", "cl.take", "cl.peek", "cl.charge", "cl.refund")
	client, ctx := server.Client(t, func(options *redis.Options) { options.Addr = address }), t.Context()
	take, err := os.ReadFile("take.lua")
	require.NoError(t, err)
	hashes := strings.NewReplacer(client.ScriptLoad(ctx, limiter.Script()).Val()+" ", "", client.ScriptLoad(ctx, string(take)).Val(), "take.lua")
	requireSent := func(t *testing.T, want string) {
		lines := ""
		for _, words := range sent() {
			if line := strings.Join(words, " "); strings.HasPrefix(line, "cl.") || strings.HasPrefix(line, "evalsha") {
				lines += hashes.Replace(line) + "\n"
			}
		}
		require.Equal(t, want, lines)
	}
	const question, throttle = "cl.reserve k 15 15 86400 0\n", "cl.throttle k 14 15 86400 "
	day, one, slow, quick := fifteenPerDay, perDay(1), limiter.Per(15, 24*time.Hour+time.Second/2), limiter.Every(time.Second/2).Burst(15)
	allows := map[limiter.Limit][2]string{ // what is sent while CL.RESERVE may be there, and then
		day:   {question, throttle + "1\n"},
		one:   {"cl.reserve k 1 1 86400 0\n", "cl.throttle k 0 1 86400 1\n"},
		slow:  {"cl.reserve k 15 15 86400.500000000 0\n", "evalsha take.lua 1 k 86400499999995 5760033333333\n"},
		quick: {"cl.reserve k 15 1 0.500000000 0\n", "evalsha take.lua 1 k 7500000000 500000000\n"},
	}
	k, other := limiter.Request{"k", day, 3}, limiter.Request{"l", one, 1}
	for name, c := range map[string]struct {
		limit limiter.Limit
		taken int
		sent  string
		ask   func(l L) (R, error)
	}{
		"Allow":       {day, 1, question + throttle + "1\n", func(l L) (R, error) { return l.Allow(ctx, "k", day) }},
		"Burst 1":     {one, 1, allows[one][0] + allows[one][1], func(l L) (R, error) { return l.Allow(ctx, "k", one) }},
		"86400.5 s":   {slow, 1, allows[slow][0] + allows[slow][1], func(l L) (R, error) { return l.Allow(ctx, "k", slow) }},
		"0.5 s":       {quick, 1, allows[quick][0] + allows[quick][1], func(l L) (R, error) { return l.Allow(ctx, "k", quick) }},
		"AllowN":      {day, 3, question + throttle + "3\n", func(l L) (R, error) { return l.AllowN(ctx, "k", day, 3) }},
		"AllowAtMost": {day, 15, "cl.take k 15 15 86400 0\n" + throttle + "20\n" + throttle + "15\n", func(l L) (R, error) { return l.AllowAtMost(ctx, "k", day, 20) }},
		"Peek":        {day, 0, "cl.peek k 15 15 86400 1\nevalsha_ro take.lua 1 k -1 5760000000000\n", func(l L) (R, error) { return l.Peek(ctx, "k", day) }},
		"Charge":      {day, 3, "cl.charge k 15 15 86400 0\nevalsha 1 k charge 15 15 86400 3\n", func(l L) (R, error) { return l.Charge(ctx, "k", day, 3) }},
		"Refund":      {day, 0, question + throttle + "1\nevalsha 1 k refund 15 15 86400 1\n", func(l L) (R, error) { allow(t, l, "k", day); return l.Refund(ctx, "k", day, 1) }},
		"Reserve":     {day, 3, "cl.reserve k 15 15 86400 0 3600\nevalsha take.lua 1 k 90000000000000 17280000000000\n", func(l L) (R, error) { return l.Reserve(ctx, "k", day, 3, time.Hour) }},
		"AllowAll":    {day, 3, "cl.reserve k 15 15 86400 0 l 1 1 86400 0\nevalsha 2 k l reserve 15 15 86400 3 1 1 86400 1\n", func(l L) (R, error) { _, results, err := l.AllowAll(ctx, k, other); return results[0], err }},
		"AllowMany":   {day, 3, question + throttle + "0\n" + throttle + "3\ncl.throttle l 0 1 86400 1\n", func(l L) (R, error) { results, err := l.AllowMany(ctx, k, other); return results[0], err }},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.FlushAll(ctx).Err())
			now, l := time.Now(), limiter.New(client)
			limiter.SetNow(l, func() time.Time { return now })
			sent() // forgets those of a row that failed
			result, err := c.ask(l)
			require.NoError(t, err)
			requireSent(t, c.sent)
			require.Equal(t, map[bool]limiter.Path{false: limiter.PathModule, true: limiter.PathScript}[strings.Contains(c.sent, "evalsha")], result.Path)
			require.Equal(t, c.limit.Capacity-c.taken, result.Remaining)
			for left := c.limit.Capacity - c.taken; left >= 0 && c.limit != quick; left-- { // which leaks meanwhile
				require.Equal(t, left == 0, allow(t, l, "k", c.limit).Limited())
				requireSent(t, allows[c.limit][1])
			}
			now = now.Add(time.Minute)
			allow(t, l, "k", c.limit)
			requireSent(t, allows[c.limit][0]+allows[c.limit][1])
		})
	}
}
