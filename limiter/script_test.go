// The script says what it takes, and replicates its effect and nothing else.

package limiter_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestScriptSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	client := connect(t, limiter.FromScript)
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
				" or times below 104 days; choose smaller ones, or load the module funnel (capacity count period quantity: 5000000 1 60 7)"},
		{strings.Repeat("k ", 65), "refund" + strings.Repeat(" 15 30 60 1", 65),
			"wrong number of arguments for 'cl.refund' command"},
	} {
		err := client.Eval(context.Background(), limiter.Script(), strings.Fields(c.keys),
			servertest.ToAny(strings.Split(c.words, " "))...).Err()
		require.ErrorContains(t, err, "ERR "+c.want, "%v", c)
	}

	// Servers drop at once what expires in 1970, so this looks at what they are sent.
	const stop = "local redis = {pcall = redis.pcall, call = function(_, _, value) error(value) end}\n"
	atOne := stop + "local clock = {0, 1}\n" + strings.ReplaceAll(limiter.Script(), "redis.call('TIME')", "clock")
	err := client.Eval(context.Background(), atOne, []string{"k"}, "reserve", 30, 30, 1, 1).Err()
	require.ErrorContains(t, err, ": 33334333")
}

// The AOF, and so replicas, get what the script writes, as they do from the module, and
// several funnels of one call in one transaction. Peeks run where nothing may be written.
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
