package command_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// callOf is a call of one funnel.
func callOf(command string) []any { return servertest.Words(command + " user:1 2 1 1000 1") }

// TestFunnelsKeysAreFound by servers and clients: words 1, 6, 11, ...
func TestFunnelsKeysAreFound(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for line, keys := range map[string][]string{
		"a 2 1 1 1":                                    {"a"},
		"a 2 1 1 1 b 2 1 1 1":                          {"a", "b"},
		"a 2 1 1 1 b 2 1 1 1 c 2 1 1 1":                {"a", "b", "c"},
		"a 2 1 1 1" + strings.Repeat(" k 2 1 1 1", 63): append([]string{"a"}, slices.Repeat([]string{"k"}, 63)...),
	} {
		for _, command := range funnelsCommands {
			lines := []string{line}
			if command == "cl.reserve" {
				lines = append(lines, line+" 0.5")
			}
			for _, line := range lines {
				call := servertest.Words(command + " " + line)
				found, err := client.Do(ctx, append([]any{"command", "getkeys"}, call...)...).StringSlice()
				require.NoError(t, err)
				require.Equal(t, keys, found, "%s", call)
				if !servertest.Since7(t) {
					continue
				}
				flagged, err := client.Do(ctx, append([]any{"command", "getkeysandflags"}, call...)...).Slice()
				require.NoError(t, err)
				access := "RW access update"
				if command == "cl.peek" {
					access = "RO access"
				}
				require.Len(t, flagged, len(keys))
				require.Equal(t, fmt.Sprintf("[%s [%s]]", keys[len(keys)-1], access), fmt.Sprint(flagged[len(keys)-1]))
			}
		}
	}
}

// TestFunnelsCommandsAreDescribed to servers and their clients.
func TestFunnelsCommandsAreDescribed(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	const funnel = "key capacity count period quantity"
	const funnels = funnel + " [" + funnel + " ...]"
	for command, c := range map[string]struct {
		flags  []string
		last   int
		syntax string
	}{
		"cl.reserve": {[]string{"write", "denyoom", "fast"}, -2, funnels + " [max_wait]"},
		"cl.peek":    {[]string{"readonly", "fast"}, -1, funnels},
		"cl.charge":  {[]string{"write", "denyoom", "fast"}, -1, funnels},
		"cl.refund":  {[]string{"write", "fast"}, -1, funnels},
	} {
		info := client.Command(ctx).Val()[command]
		require.NotNil(t, info, command)
		require.Equal(t, []int{1, c.last, 5}, []int{int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)}, command)
		flags := slices.DeleteFunc(slices.Clone(info.Flags), func(flag string) bool {
			return !slices.Contains([]string{"write", "readonly", "denyoom", "fast", "movablekeys", "admin", "blocking", "noscript"}, flag)
		})
		require.ElementsMatch(t, c.flags, flags, command)

		if !servertest.Since7(t) {
			continue // a module cannot tell the rest
		}
		require.EqualValues(t, -6, info.Arity, command)
		docs := client.Do(ctx, "command", "docs", command).Val().(map[any]any)[command].(map[any]any)
		require.NotEmpty(t, docs["summary"], command)
		require.Equal(t, "0.1.0", docs["since"], command)
		require.Contains(t, docs["complexity"], "O(N)", command)
		require.Equal(t, c.syntax, syntaxOf(docs["arguments"]), command)
	}
}

// syntaxOf writes arguments as servers document them.
func syntaxOf(arguments any) string {
	var words []string
	for _, argument := range arguments.([]any) {
		argument := argument.(map[any]any)
		word := argument["name"].(string)
		if argument["type"] == "block" {
			word = syntaxOf(argument["arguments"])
		}
		flags := fmt.Sprint(argument["flags"])
		if strings.Contains(flags, "multiple") {
			word += " [" + word + " ...]"
		}
		if strings.Contains(flags, "optional") {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// newUser logs in with permissions.
func newUser(t *testing.T, server *servertest.Server, name string, rules ...any) *redis.Client {
	t.Helper()
	words := append([]any{"acl", "setuser", name, "reset", "on", ">secret"}, rules...)
	require.NoError(t, server.Client(t).Do(context.Background(), words...).Err())
	return server.Client(t, func(options *redis.Options) { options.Username, options.Password = name, "secret" })
}

// TestFunnelsNeedPermission for every key, and CL.PEEK only to read it.
func TestFunnelsNeedPermission(t *testing.T) {
	server := servertest.StartModule(t)
	ctx := context.Background()
	all := []any{"+cl.reserve", "+cl.peek", "+cl.charge", "+cl.refund"}
	app := newUser(t, server, "app", append(all, "~user:*")...)
	for _, command := range funnelsCommands {
		require.NoError(t, app.Do(ctx, callOf(command)...).Err())
		for _, line := range []string{" admin:1 2 1 1 1", " admin:1 2 1 1 1 user:1 2 1 1 1", " user:1 2 1 1 1 admin:1 2 1 1 1"} {
			require.ErrorContains(t, app.Do(ctx, servertest.Words(command+line)...).Err(), "NOPERM", command+line)
		}
	}
	require.NoError(t, app.Do(ctx, servertest.Words("cl.reserve user:1 2 1 1 0 0")...).Err(), "max_wait is no key")
	other := newUser(t, server, "other", "~*", "+cl.throttle")
	for _, command := range funnelsCommands {
		require.ErrorContains(t, other.Do(ctx, callOf(command)...).Err(), "NOPERM", command)
	}

	if !servertest.Since7(t) {
		return // there, a permission for a key is one to read and to write it
	}
	for _, keys := range []struct {
		rule    string
		allowed []string
	}{{"%R~user:*", []string{"cl.peek"}}, {"%W~user:*", nil}, {"%RW~user:*", funnelsCommands}} {
		user := newUser(t, server, "reader", append(all, keys.rule)...)
		for _, command := range funnelsCommands {
			err := user.Do(ctx, callOf(command)...).Err()
			if slices.Contains(keys.allowed, command) {
				require.NoError(t, err, command+" with "+keys.rule)
			} else {
				require.ErrorContains(t, err, "NOPERM", command+" with "+keys.rule)
			}
		}
	}
}

// TestFunnelsACLCategories: the built-in ones, where a module can join them, and their
// own, where it can add one (Redis 7.4, Valkey 8).
func TestFunnelsACLCategories(t *testing.T) {
	server := servertest.StartModule(t)
	ctx := context.Background()
	admin := server.Client(t)
	known, err := admin.Do(ctx, "acl", "cat").StringSlice()
	require.NoError(t, err)
	writes, err := admin.Do(ctx, "acl", "cat", "write").StringSlice()
	require.NoError(t, err)
	if !slices.Contains(writes, "cl.throttle") {
		t.Skip("this server lets no module join a category")
	}
	for category, allowed := range map[string][]string{
		"write": {"cl.reserve", "cl.charge", "cl.refund"}, "read": {"cl.peek"}, "fast": funnelsCommands, "throttle": funnelsCommands,
	} {
		if !slices.Contains(known, category) {
			t.Logf("this server has no category %s", category)
			continue
		}
		user := newUser(t, server, category, "~*", "+@"+category)
		for _, command := range funnelsCommands {
			err := user.Do(ctx, callOf(command)...).Err()
			if slices.Contains(allowed, command) {
				require.NoError(t, err, command+" with @"+category)
			} else {
				require.ErrorContains(t, err, "NOPERM", command+" with @"+category)
			}
		}
	}
}
