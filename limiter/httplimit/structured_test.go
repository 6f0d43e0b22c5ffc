package httplimit_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A member is one of a list of structured fields (RFC 9651), of the kind that the
// draft has: a String with parameters that are Integers.
type member struct {
	name       string
	parameters map[string]int64
}

// The grammar, independent of the code under test.
var (
	memberSyntax    = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"((?:; *[a-z*][a-z0-9_.*-]*=-?[0-9]{1,15})*)$`)
	parameterSyntax = regexp.MustCompile(`; *([a-z*][a-z0-9_.*-]*)=(-?[0-9]{1,15})`)
	unescape        = strings.NewReplacer(`\\`, `\`, `\"`, `"`)
)

func parseMember(t testing.TB, text string) member {
	t.Helper()
	match := memberSyntax.FindStringSubmatch(text)
	require.NotNilf(t, match, "%q is no String with Integers as parameters", text)
	got := member{unescape.Replace(match[1]), map[string]int64{}}
	for _, parameter := range parameterSyntax.FindAllStringSubmatch(match[2], -1) {
		number, err := strconv.ParseInt(parameter[2], 10, 64)
		require.NoError(t, err)
		got.parameters[parameter[1]] = number
	}
	return got
}

// requireWellFormed requires what holds for any answer with headers, by the draft and
// by the table of README.md.
func requireWellFormed(t testing.TB, got response, name string) {
	t.Helper()
	header := func(name string) int64 {
		number, err := strconv.ParseInt(got.Header.Get(name), 10, 64)
		require.NoErrorf(t, err, "header %s", name)
		return number
	}
	policy := parseMember(t, got.Header.Get("RateLimit-Policy"))
	state := parseMember(t, got.Header.Get("RateLimit"))
	require.Equal(t, name, policy.name)
	require.Equal(t, name, state.name)
	require.Lenf(t, policy.parameters, 2, "%v", policy)
	require.Lenf(t, state.parameters, 2, "%v", state)
	for key, number := range policy.parameters {
		require.Positive(t, number, key)
	}
	require.Equal(t, policy.parameters["q"], header("X-RateLimit-Limit"))
	require.Equal(t, state.parameters["r"], header("X-RateLimit-Remaining"))
	require.GreaterOrEqual(t, state.parameters["r"], int64(0))
	require.LessOrEqual(t, state.parameters["r"], policy.parameters["q"])
	require.LessOrEqual(t, header("X-RateLimit-Reset"), policy.parameters["w"])
	if got.StatusCode == 429 {
		require.Equal(t, state.parameters["t"], header("Retry-After"))
		require.Positive(t, state.parameters["t"])
	} else {
		require.Empty(t, got.Header.Values("Retry-After"))
		require.Equal(t, state.parameters["t"], header("X-RateLimit-Reset"))
	}
}

// headersOf are those that the middleware sets, for comparisons.
func headersOf(got response) map[string]string {
	all := map[string]string{"status": fmt.Sprint(got.StatusCode)}
	for _, name := range []string{
		"Retry-After", "RateLimit-Policy", "RateLimit",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	} {
		if values := got.Header.Values(name); len(values) > 0 {
			all[name] = strings.Join(values, ", ")
		}
	}
	return all
}
