package funnel_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

const maxInt63 = 1<<63 - 1

// epoch is an instant to set the clock to: ahead of the real clock, by which the
// server expires keys, so that a funnel filled then does not vanish meanwhile.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// quickOrLong picks the size of a test: quick by default, so that the suite can
// run against many servers, long when FUNNEL_LONG is set.
func quickOrLong[T any](quick, long T) T {
	if os.Getenv("FUNNEL_LONG") != "" {
		return long
	}
	return quick
}

// A reply is the answer of CL.THROTTLE: limited, limit, remaining, retry after
// and reset after.
type reply [5]int64

// startServer starts a server with the module.
func startServer(t testing.TB) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
}

// startFunnel starts a server with the module and connects to it.
func startFunnel(t testing.TB) *redis.Client {
	t.Helper()
	return startServer(t).Client(t)
}

// startFunnelWithClock starts a server whose module takes its time from a test.
func startFunnelWithClock(t testing.TB) (*redis.Client, clock) {
	t.Helper()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	return client, clock{client}
}

// A clock sets what CL.THROTTLE takes for now.
type clock struct{ client *redis.Client }

func (c clock) set(t testing.TB, now time.Time) {
	t.Helper()
	got, err := c.client.Do(context.Background(), "funnel.debug", "clock", now.UnixNano()).Int64()
	require.NoError(t, err)
	require.Equal(t, now.UnixNano(), got)
}

// A commander is a client, a connection or a pipeline.
type commander interface {
	Do(ctx context.Context, arguments ...any) *redis.Cmd
}

func throttle(t testing.TB, client commander, arguments ...any) reply {
	t.Helper()
	return toReply(t, client.Do(context.Background(), append([]any{"cl.throttle"}, arguments...)...))
}

func toReply(t testing.TB, command *redis.Cmd) reply {
	t.Helper()
	got, err := command.Int64Slice()
	require.NoError(t, err)
	require.Len(t, got, len(reply{}))
	return reply(got)
}

// requireError requires that a call is refused with an error that begins with
// the prefix, and returns it.
func requireError(t testing.TB, client commander, prefix string, arguments ...any) string {
	t.Helper()
	err := client.Do(context.Background(), append([]any{"cl.throttle"}, arguments...)...).Err()
	require.Error(t, err)
	require.Truef(t, strings.HasPrefix(err.Error(), prefix), "error %q does not begin with %q", err, prefix)
	return err.Error()
}

// infoField reads a number from INFO.
func infoField(t testing.TB, client *redis.Client, section, field string) int64 {
	t.Helper()
	info, err := client.Info(context.Background(), section).Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			number, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			return number
		}
	}
	t.Fatalf("INFO %s has no field %s:\n%s", section, field, info)
	return 0
}

// eventually waits for a condition of a real server.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, servertest.Patience, 5*time.Millisecond, what)
}
