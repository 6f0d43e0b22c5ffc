// The script gives redis_exporter the counts of INFO funnel.

package promhook

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// redis_exporter takes the reply of the script for names and numbers, and what it has shown
// in testdata is among them.
func TestScriptReturnsTheCountsOfInfo(t *testing.T) {
	script, err := os.ReadFile("funnel.lua")
	require.NoError(t, err)
	rdb := servertest.StartClient(t)
	l := limiter.New(rdb)
	_, err = l.Allow(ctx, "k", limiter.PerMinute(1))
	require.NoError(t, err)
	_, err = l.Peek(ctx, "k", limiter.PerMinute(1))
	require.NoError(t, err)

	info, err := rdb.Info(ctx, "funnel").Result()
	require.NoError(t, err)
	want := []string{"funnel_loaded", "1"}
	for _, field := range regexp.MustCompile(`(funnel_\w+):(\d+)\r\n`).FindAllStringSubmatch(info, -1) {
		if field[1] != "funnel_commit" {
			want = append(want, field[1], field[2])
		}
	}
	reply, err := rdb.Eval(ctx, string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, want, reply)
	shown, err := os.ReadFile("testdata/redis_exporter.txt")
	require.NoError(t, err)
	for _, key := range regexp.MustCompile(`redis_script_values\{key="(\w+)"\}`).FindAllSubmatch(shown, -1) {
		require.Contains(t, reply, string(key[1]))
	}

	bare := servertest.Start(t, servertest.Options{}).Client(t)
	reply, err = bare.Eval(ctx, string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"funnel_loaded", "0"}, reply, "without the module")
}
