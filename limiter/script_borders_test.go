package limiter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// At the borders of what a double holds exactly, the script does what the module does: with an
// expiry that another command has written, beyond 2^53 milliseconds and beyond 2262; and with
// numbers up to 2^53, beyond which it refuses a call.
func TestScriptAtItsBorders(t *testing.T) {
	t.Parallel()
	client := servertest.StartClient(t)
	ctx := context.Background()
	const far, most = "9223372036.854775807", "9007199254740992"
	for _, c := range []struct{ stored, expiry, command, words string }{
		{"used:5", "9223372036854", "reserve", "9 UNTIL " + far + " 1"},
		{"used:5", "9223372036855", "reserve", "9 UNTIL " + far + " 1"},
		{"used:5", "9007199254740991", "reserve", "9 UNTIL " + far + " 1"},
		{"used:5", "9007199254740992", "reserve", "9 UNTIL " + far + " 1"},
		{"used:5", "9007199254740993", "reserve", "9 UNTIL " + far + " 1"},
		{"used:5", "9007199254740993", "reserve", "9 UNTIL +60 1"},
		{"used:5", "9007199254740993", "charge", "9 UNTIL +60 7"},
		{"used:5", "9007199254740993", "peek", "9 UNTIL +60 1"},
		{"used:5", "9007199254740993", "refund", "9 UNTIL 5000000000 1"},
		{"used:5", "9223372036854775000", "take", "9 UNTIL +60 9"},
		{"used:5", "9223372036854775000", "refund", "9 UNTIL 5000000000 2"},
		{"used:5", "9223372036854775000", "reserve", "9 UNTIL 5000000000 1"},
		{"used:9007199254740991", "5000000000000", "charge", most + " UNTIL 5000000000 1"},
		{"used:9007199254740991", "5000000000000", "reserve", most + " UNTIL 5000000000 2"},
		{"used:9007199254740990", "5000000000000", "take", most + " UNTIL 5000000000 " + most},
		{"used:" + most, "5000000000000", "refund", most + " UNTIL 5000000000 1"},
		{"used:" + most, "5000000000000", "refund", most + " UNTIL 5000000000 " + most},
		{"used:" + most, "5000000000000", "peek", "9007199254740991 UNTIL 5000000000 1"},
	} {
		say := func(command *redis.Cmd) string {
			require.NoError(t, command.Err(), "%v", c)
			reply := command.Val().([]any)
			row := reply[2].([]any)[0].([]any)
			value, _ := client.Get(ctx, "k").Result()
			// Not the times, which depend on the instant of the call, but the receipt.
			return fmt.Sprint(reply[0], row[0:3], row[5], reply[3:], value, servertest.ExpiryOf(t, client, "k"))
		}
		prepare := func() {
			require.NoError(t, client.Do(ctx, "set", "k", c.stored, "pxat", c.expiry).Err(), "%v", c)
		}
		prepare()
		module := say(client.Do(ctx, servertest.Words("cl."+c.command+" k "+c.words)...))
		prepare()
		script := say(client.Eval(ctx, limiter.Script(), []string{"k"}, servertest.Words(c.command+" "+c.words)...))
		require.Equal(t, module, script, "what the module and the script make of %v", c)
	}
}
