package servertest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A Reply is the answer of CL.THROTTLE: limited, limit, remaining, retry after
// and reset after.
type Reply [5]int64

// A Commander is a client, a connection or a pipeline.
type Commander interface {
	Do(ctx context.Context, arguments ...any) *redis.Cmd
}

// Throttle calls CL.THROTTLE, and requires a reply.
func Throttle(t testing.TB, client Commander, arguments ...any) Reply {
	t.Helper()
	return ToReply(t, client.Do(context.Background(), append([]any{"cl.throttle"}, arguments...)...))
}

// ToReply requires that a command has replied as CL.THROTTLE does.
func ToReply(t testing.TB, command *redis.Cmd) Reply {
	t.Helper()
	got, err := command.Int64Slice()
	require.NoError(t, err)
	require.Len(t, got, len(Reply{}))
	return Reply(got)
}

// RequireError requires that a call replies an error that begins with
// the prefix, and returns it.
func RequireError(t testing.TB, client Commander, prefix string, arguments ...any) string {
	t.Helper()
	err := client.Do(context.Background(), append([]any{"cl.throttle"}, arguments...)...).Err()
	require.Error(t, err)
	require.Truef(t, strings.HasPrefix(err.Error(), prefix), "error %q does not begin with %q", err, prefix)
	return err.Error()
}

// LimitedOf returns the first number of each reply: 0 allowed, 1 limited.
func LimitedOf(t testing.TB, commands []redis.Cmder) (limited []int64) {
	t.Helper()
	for _, command := range commands {
		limited = append(limited, ToReply(t, command.(*redis.Cmd))[0])
	}
	return limited
}

// InfoField reads a number from INFO.
func InfoField(t testing.TB, client *redis.Client, section, field string) int64 {
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

// IgnoreNil returns the error, but not that of a nil reply.
func IgnoreNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}
