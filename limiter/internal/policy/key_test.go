package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestKeys(t *testing.T) {
	rate, quota, window := limiter.PerSecond(1), limiter.Daily(1, time.UTC), limiter.Window(1, time.Hour)
	for _, c := range []struct {
		name, key string
		limit     limiter.Limit
		want      string
		slots     string
	}{
		{name: "login", key: "192.0.2.1", limit: rate, want: "{login:192.0.2.1}:rate", slots: "{login:192.0.2.1}:slots"},
		{name: "login", key: "192.0.2.1", limit: quota, want: "{login:192.0.2.1}:quota", slots: "{login:192.0.2.1}:slots"},
		{name: "login", key: "", limit: window, want: "{login:}:window", slots: "{login:}:slots"},
		{name: "login", key: "{org}:7", limit: rate, want: "login:{org}:7:rate", slots: "login:{org}:7:slots"},
		{name: "login", key: "{a}", limit: rate, want: "login:{a}:rate", slots: "login:{a}:slots"},
		{name: "login", key: "{}", limit: rate, want: "{login:{}}:rate", slots: "{login:{}}:slots"},
		{name: "login", key: "}{", limit: rate, want: "{login:}{}:rate", slots: "{login:}{}:slots"},
		{name: `a:b{c}\`, key: "k", limit: rate, want: `{a\:b\<c\>\\:k}:rate`, slots: `{a\:b\<c\>\\:k}:slots`},
		{name: "}", key: "k", limit: rate, want: `{\>:k}:rate`, slots: `{\>:k}:slots`},
	} {
		require.Equal(t, c.want, LimitKey(c.name, c.key, c.limit))
		require.Equal(t, c.slots, SlotsKey(c.name, c.key))
		require.Equal(t, tagOf(c.want), tagOf(c.slots), "both are on one node")
	}
}

// tagOf returns what decides in a cluster on which node a key is.
func tagOf(key string) string {
	_, behind, found := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(behind, "}")
	if found && closed && tag != "" {
		return tag
	}
	return key
}

// No two policies, keys or kinds have one key in Redis, however hostile the names and keys are, and
// all kinds of a policy and key are on one node.
func TestKeysAreApart(t *testing.T) {
	texts := []string{"", "a", ":", `\`, "{", "}", "{}", "{a}", "}{", "a:", ":a",
		`\:`, `\<`, "a}", "{a", ":rate", ":slots", "}:rate"}
	seen := map[string]string{}
	for _, name := range texts[1:] {
		for _, key := range texts {
			what := name + " and " + key
			keys := []string{LimitKey(name, key, limiter.PerSecond(1)), LimitKey(name, key, limiter.Daily(1, time.UTC)),
				LimitKey(name, key, limiter.Window(1, time.Hour)), SlotsKey(name, key)}
			for _, made := range keys {
				require.Empty(t, seen[made], "%s is the key of %s, too", made, what)
				seen[made] = what
				require.Equal(t, tagOf(keys[0]), tagOf(made), what)
			}
		}
	}
}

// Keys hold neither secrets nor braces, which mark hash tags, and are of bounded length.
func TestKeysOfCallers(t *testing.T) {
	require.Equal(t, "x-api-key:", Secret("X-Api-Key", ""))
	require.Equal(t, "x-api-key:2bb80d537b1da3e38bd30361aa855686", Secret("X-Api-Key", "secret"))
	long := "/" + strings.Repeat("x", 63)
	require.Equal(t, long, Path(long))
	require.Len(t, Path(long+"x"), 32, "hashed")
	require.NotEqual(t, Path(long+"x"), Path(long+"y"))
	require.Equal(t, "/users/%7Bid%7D%25", Path("/users/{id}%"))
	require.Equal(t, "a%7C%25|b|", Join([]string{"a|%", "b", ""}))
}
