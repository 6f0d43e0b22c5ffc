package servertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Words are the words of a command.
func Words(line string) []any { return ToAny(strings.Fields(line)) }

// Funnels calls CL.RESERVE, CL.PEEK, CL.CHARGE or CL.REFUND, and returns the reply as
// [ToFunnelsReply] writes it.
func Funnels(t testing.TB, client Commander, line string) string {
	t.Helper()
	return ToFunnelsReply(t, client.Do(context.Background(), Words(line)...))
}

// ToFunnelsReply writes the reply of these commands as one line, such as
// "0 0 [0 10 9 0 0.1]": limited and wait, then limited, limit, remaining, wait and reset
// after of each funnel. It requires that limited, limit and remaining are integers, and
// that times are strings.
func ToFunnelsReply(t testing.TB, command *redis.Cmd) string {
	t.Helper()
	reply, err := command.Slice()
	require.NoError(t, err)
	require.Len(t, reply, 3)
	rows, _ := reply[2].([]any)
	line := fmt.Sprintf("%d %s", integer(t, reply[0]), text(t, reply[1]))
	for _, row := range rows {
		fields, _ := row.([]any)
		require.Len(t, fields, 5)
		line += fmt.Sprintf(" [%d %d %d %s %s]", integer(t, fields[0]), integer(t, fields[1]), integer(t, fields[2]),
			text(t, fields[3]), text(t, fields[4]))
	}
	return line
}

func integer(t testing.TB, value any) int64 {
	t.Helper()
	require.IsType(t, int64(0), value)
	return value.(int64)
}

func text(t testing.TB, value any) string {
	t.Helper()
	require.IsType(t, "", value)
	return value.(string)
}

// Dumps are all keys and what they hold, in the server's own form.
func Dumps(t testing.TB, client *redis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	dumps := map[string]string{}
	for _, key := range keys {
		dump, err := client.Dump(ctx, key).Result()
		require.NoError(t, err)
		dumps[key] = fmt.Sprintf("%x, expires at %d", dump, ExpiryOf(t, client, key))
	}
	return dumps
}

// WithoutTimes leaves the times out of what [ToFunnelsReply] wrote, for clocks that go on.
func WithoutTimes(reply string) string {
	rows := strings.Split(reply, " [")
	limited, _, _ := strings.Cut(rows[0], " ")
	for i, row := range rows[1:] {
		rows[i+1] = strings.Join(strings.Fields(row)[:3], " ")
	}
	return limited + " [" + strings.Join(rows[1:], "] [") + "]"
}
