// The script names the arguments that it takes, and replicates only its effect.

package limiter_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestScriptSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	client := connect(t, limiter.FromScript)
	sums := client.MSet(context.Background(), "sum", "used:9007199254740993", "most", "used:9007199254740992")
	require.NoError(t, sums.Err())
	for _, c := range []struct{ keys, words, want string }{
		{"", "", "the script takes"},
		{"k", "RESERVE 15 30 60 1", "the script takes"},
		{"k", "reserve,now=1 15 30 60 1", "the script takes"},
		{"", "reserve", "wrong number of arguments for 'cl.reserve' command"},
		{"k", "reserve 1 1 3600 1 0 5", "wrong number of arguments for 'cl.reserve' command"},
		{"k", "peek 15 30 60 1 0", "wrong number of arguments for 'cl.peek' command"},
		{"k l", "charge 15 30 60 1", "wrong number of arguments for 'cl.charge' command"},
		{"k", "peek 15 30 60 \xff\n'x", "quantity must be an integer from 0 to 9223372036854775807, not '??'x'"},
		{"k", "peek 1 5000000 10000000 1", "count and period are too large together for the script"},
		{"k", "peek 1 1 60 5000000", "quantity and period are too large together for the script"},
		{"k l", "peek 15 30 60 1 5000000 1 60 7",
			"row 2: capacity and period are too large together for the script: it takes numbers up to 4000000," +
				" or times below 104 days; choose smaller ones, or load the module funnel" +
				" (capacity count period quantity: 5000000 1 60 7)"},
		{"k", "peek 9007199254740993 until 5000000000 1",
			"limit is too large for the script: it takes up to 9007199254740992"},
		{"k", "peek 1 until 5000000000 9007199254740993", "quantity is too large for the script: it takes up to"},
		{"sum", "peek 1 until 5000000000 1", "the sum that is used is too large for the script: it takes up to"},
		{"most", "charge 1 until 5000000000 1", "the sum that is used is too large for the script: it takes up to"},
		{strings.Repeat("k ", 65), "refund" + strings.Repeat(" 15 30 60 1", 65),
			"wrong number of arguments for 'cl.refund' command"},
	} {
		err := client.Eval(context.Background(), limiter.Script(), strings.Fields(c.keys),
			servertest.ToAny(strings.Split(c.words, " "))...).Err()
		code := "INVALID "
		if strings.HasPrefix(c.want, "wrong number") {
			code = "ERR "
		}
		require.ErrorContains(t, err, code+c.want, "%v", c)
	}

	// A server drops a key that expires in 1970 at once, so this looks at the command that it gets.
	const stop = "local redis = {pcall = redis.pcall, call = function(_, _, value) error(value) end}\n"
	atOne := stop + "local clock = {0, 1}\n" + strings.ReplaceAll(limiter.Script(), "redis.call('TIME')", "clock")
	err := client.Eval(context.Background(), atOne, []string{"k"}, "reserve", 30, 30, 1, 1).Err()
	require.ErrorContains(t, err, ": 33334333")
}

// The AOF, and so replicas, get the writes of the script, as they get writes of the module: for
// several funnels of one call, in one transaction. Peeks run where nothing may be written.
func TestScriptReplicatesItsEffect(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{Config: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	client := server.Client(t)
	call := func(keys string, words ...any) {
		require.NoError(t, client.Eval(ctx, limiter.Script(), strings.Fields(keys), words...).Err())
	}
	var want [][]string
	written := func(key string) {
		tat, expiry := client.Get(ctx, key).Val(), servertest.ExpiryOf(t, client, key)
		require.Len(t, tat, 19)
		want = append(want, []string{"SET", key, tat, "PXAT", strconv.FormatInt(expiry, 10)})
	}
	call("one", "reserve", 15, 30, 6000, 3)
	written("one")
	call("one", "reserve", 15, 30, 6000, 13)
	call("one", "reserve", 15, 30, 6000, 0)
	call("one", "peek", 15, 30, 6000, 1)
	call("one", "charge", 15, 30, 6000, 30)
	written("one")
	call("one two", "refund", 15, 30, 6000, 1, 15, 30, 6000, 1)
	written("one")
	call("one", "refund", 15, 30, 6000, 100)
	want = append(want, []string{"DEL", "one"})
	call("one two", "reserve", 15, 30, 6000, 1, 15, 30, 6000, 1)
	want = append(want, []string{"MULTI"})
	written("one")
	written("two")
	want = append(want, []string{"EXEC"})
	used := func(number, expiry string) {
		want = append(want, []string{"SET", "sum", "used:" + number, "PXAT", expiry})
	}
	call("sum", "take", 5, "UNTIL", 5_000_000_000, 3)
	used("3", "5000000000000")
	call("sum", "peek", 2, "UNTIL", "4102444800", 1)
	call("sum", "reserve", 2, "UNTIL", "4102444800.0001", 1) // is limited, and cuts the period
	used("3", "4102444800001")
	call("sum", "refund", 5, "UNTIL", 1, 3)
	call("sum", "charge", 2, "UNTIL", 5_000_000_000, 4)
	used("7", "4102444800001")
	call("sum", "refund", 5, "UNTIL", 5_000_000_000, 7)
	want = append(want, []string{"DEL", "sum"})
	call("sum", "reserve", 5, "UNTIL", "+9000", 1)
	end := fmt.Sprint(servertest.ExpiryOf(t, client, "sum"))
	used("1", end)
	call("sum", "reserve", 5, "UNTIL", "+1", 5)
	call("sum", "take", 5, "UNTIL", "+1", 9)
	used("5", end)
	require.Equal(t, want, servertest.ReadAppendOnlyFile(t, server)[1:])

	// Above maxmemory a refund is executed if it empties its funnel.
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, client.Eval(ctx, limiter.Script(), []string{"one"}, "refund", 15, 60, 6000, 1).Err(), "OOM")
	call("one two", "refund", 15, 30, 6000, 1, 15, 30, 6000, 1)
	call("one two", "reserve", 15, 30, 6000, 16, 15, 30, 6000, 1)
	require.Zero(t, client.Exists(ctx, "one", "two").Val())

	if servertest.Since7(t) {
		require.NoError(t, client.ReplicaOf(ctx, "127.0.0.1", "1").Err())
		require.NoError(t, client.EvalRO(ctx, limiter.Script(), []string{"one", "two"}, "peek", 15, 30, 6000, 1, 15, 30,
			6000, 1).Err())
	}
}

// Without PEXPIRETIME, the script knows the end of a period only to some milliseconds. But a call
// that does not change the end does not change the expiry, not even by a millisecond.
func TestScriptBeforeRedis7(t *testing.T) {
	t.Parallel()
	ctx, client := context.Background(), servertest.Start(t, servertest.Options{}).Client(t)
	script := strings.ReplaceAll(limiter.Script(), "'PEXPIRETIME'", "'NONE'")
	minute := time.Now().Add(time.Minute).UnixMilli()
	for _, c := range []struct {
		words  string // of a limit of 9: the operation, [how long the period lasts], the quantity
		after  int64  // until so many milliseconds after that minute
		want   string
		expiry int64
	}{
		{"reserve 2", 0, "0 used:2", 0},
		{"reserve 3", 3_600_000, "0 used:5", 0},
		{"charge 9", 3_600_000, "1 used:14", 0},
		{"refund 7", -30_000, "0 used:7", 0},
		{"take 5", 3_600_000, "1 used:9", 0},
		{"reserve 5", 3_600_000, "1 used:9", 0},
		{"reserve 5", -20_000, "1 used:9", -20_000}, // is limited, and cuts the period
		{"refund 5", 0, "0 used:4", -20_000},
		{"charge 1", -20_001, "0 used:5", -20_000}, // by a receipt that is a millisecond early
		{"charge +0.5 1", 0, "0 used:6", -20_000},
		{"take +3600 2", 0, "0 used:8", -20_000},
		{"reserve +0.5 2", 0, "1 used:8", -20_000},
		{"peek +0.5 1", 0, "0 used:8", -20_000},
	} {
		words, until := strings.Fields(c.words), minute+c.after
		seconds := fmt.Sprintf("%d.%03d", until/1000, until%1000)
		if len(words) == 3 {
			seconds = words[1]
		}
		reply, err := client.Eval(ctx, script, []string{"k"}, words[0], 9, "UNTIL", seconds, words[len(words)-1]).Slice()
		require.NoError(t, err)
		require.Equal(t, c.want, fmt.Sprint(reply[0], " ", client.Get(ctx, "k").Val()), "%+v", c)
		require.Equal(t, minute+c.expiry, servertest.ExpiryOf(t, client, "k"), "%+v", c)
		end, err := strconv.ParseFloat(reply[2].([]any)[0].([]any)[5].(string), 64)
		require.NoError(t, err)
		if end > 0 {
			require.InDelta(t, minute+c.expiry, end*1000, 500, "%+v", c)
			require.LessOrEqual(t, end*1000, float64(minute+c.expiry)+0.1, "the receipt is of no later period")
		}
	}
	require.NoError(t, client.Persist(ctx, "k").Err())
	require.NoError(t, client.Eval(ctx, script, []string{"k"}, "reserve", 9, "UNTIL", "+60", 9).Err()) // is limited
	require.InDelta(t, time.Minute, client.PTTL(ctx, "k").Val(), float64(servertest.Patience))
}

func TestPageTellsTheHashAndSizeOfTheScript(t *testing.T) {
	page, err := os.ReadFile("../docs/clients.md")
	require.NoError(t, err)
	hash, size := sha1.Sum([]byte(limiter.Script())), len(limiter.Script())
	for name, want := range map[string]string{
		"hash": fmt.Sprintf("`%x`", hash),
		"size": fmt.Sprintf(" %d,%03d bytes", size/1000, size%1000),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/clients.md does not say the %s of the script: %s", name, want)
		}
	}
}
