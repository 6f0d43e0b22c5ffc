// Later versions may add elements to replies. Any other reply that the command or the script cannot
// make is an error that says so, and decides nothing.

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A foreign client sends a script instead of each command, so it gets the replies of a server that
// has other commands under the same names.
type foreign struct {
	*redis.Client
	script string
}

func (c *foreign) Process(ctx context.Context, command redis.Cmder) error {
	reply, err := c.Eval(ctx, c.script, nil).Result()
	answer(command, reply)
	return err
}

func TestReplies(t *testing.T) {
	t.Parallel()
	client := connect(t, limiter.FromScript)
	const no = ": does another module have this command?"
	const wrong = `limiter: key "key": unexpected reply to take.lua: %s`
	for _, c := range []struct {
		name, reply string // to AllowAtMost of 2 tokens
		source      limiter.Source
		allowed     int
		err         string
	}{
		{"as it is", "{1, '9', {{1, 15, 0, '9', '86400.5', '41'}}, 1}", limiter.FromModule, 1, ""},
		{"more elements", "{1, '9', {{1, 15, 0, '9', '86400.5', '41', 'new'}}, 1, 'new'}", limiter.FromModule, 1, ""},
		{"numbers as text", "{'1', '9', {{'1', '15', '0', '9', '86400.5', '41'}}, '1'}", limiter.FromModule, 1, ""},
		{"more taken than asked for", "{0, '0', {{0, 15, 0, '0', '1', '41'}}, 3}", limiter.FromModule, 0, no},
		{"fewer than none taken", "{0, '0', {{0, 15, 0, '0', '1', '41'}}, -1}", limiter.FromModule, 0, no},
		{"fewer elements", "{0, '0', {{0, 15, 0, '0', '1', '41'}}}", limiter.FromModule, 0, no},
		{"fewer elements in a row", "{0, '0', {{0, 15, 0, '0', '1'}}, 1}", limiter.FromModule, 0, no},
		{"no row", "{0, '0', {}, 1}", limiter.FromModule, 0, no},
		{"two rows", "{0, '0', {{0, 15, 0, '0', '1', '41'}, {0, 15, 0, '0', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"a time in words", "{0, '0', {{0, 15, 0, 'soon', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"no time", "{0, '0', {{0, 15, 0, '', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"a limit in words", "{0, '0', {{0, 'many', 0, '0', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"a time beyond 292 years", "{0, '0', {{0, 15, 0, '9223372037', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"a time of 292 years and some", "{0, '0', {{0, 15, 0, '9223372036.9', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"never, for what fits", "{1, '-1', {{1, 15, 0, '-1', '1', '0'}}, 0}", limiter.FromModule, 0, no},
		{"fewer than none remain", "{0, '0', {{0, 15, -1, '0', '1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"empty at no time", "{0, '0', {{0, 15, 0, '0', '-1', '41'}}, 1}", limiter.FromModule, 0, no},
		{"a receipt below 0", "{0, '0', {{0, 15, 0, '0', '1', '-41'}}, 1}", limiter.FromModule, 0, no},
		{"a word", "'OK'", limiter.FromModule, 0, `limiter: key "key": unexpected reply to cl.take: OK` + no},
		{"take.lua's", "'410245632000000000041024448000 2'", limiter.FromScript, 2, ""},
		{"another script's word", "'OK'", limiter.FromScript, 0, fmt.Sprintf(wrong, "OK")},
		{"another script's list", "{1}", limiter.FromScript, 0, fmt.Sprintf(wrong, "[1]")},
		{"a funnel below empty", "-1", limiter.FromScript, 0, fmt.Sprintf(wrong, "-1")},
		{"more taken by the script", "'410246208000000000041024448000 3'", limiter.FromScript, 0,
			"unexpected reply to take.lua"},
	} {
		l := limiter.New(&foreign{client, "return " + c.reply}, limiter.WithSource(c.source))
		result, err := l.AllowAtMost(t.Context(), "key", fifteenPerDay, 2)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.name)
			require.Equal(t, limiter.Result{Key: "key", Limit: fifteenPerDay, Quantity: 2}, result, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, []any{c.allowed, c.source}, []any{result.Allowed, result.Source}, c.name)
		require.Positive(t, result.Receipt, c.name)
		if c.source == limiter.FromModule {
			require.Equal(t, 24*time.Hour+500*time.Millisecond, result.ResetAfter, c.name)
		}
	}
	allowedAndNever := &foreign{client, "return {0, '-1', {{0, 2, 1, '-1', '3', '0'}}}"}
	l := limiter.New(allowedAndNever, limiter.WithSource(limiter.FromModule))
	_, err := l.TryAcquire(t.Context(), twoFor3s.At("key"))
	require.ErrorContains(t, err, no, "allowed, and never")
}
