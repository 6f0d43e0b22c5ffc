// What SetHeaders says of several results and of several decisions, and that clients can read it.

package httplimit_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// X-RateLimit and Retry-After describe the policy that refuses the request. If several refuse it,
// they describe the policy with the longest wait; if none does, the policy with the least
// remaining. RateLimit and RateLimit-Policy describe all.
func TestSetHeaders(t *testing.T) {
	fits := func(limit, remaining int) limiter.Result {
		return limiter.Result{OK: true, Limit: slow(limit), Remaining: remaining, ResetAfter: time.Second}
	}
	refuses := func(limit, remaining int, wait time.Duration) limiter.Result {
		return limiter.Result{Limit: slow(limit), Remaining: remaining, RetryAfter: wait, ResetAfter: time.Hour}
	}
	slots := limiter.Slots{Max: 3, TTL: time.Minute}
	slot := limiter.Result{OK: true, Slots: slots, Remaining: 2}
	noSlot := limiter.Result{Slots: slots, RetryAfter: time.Hour}
	for name, c := range map[string]struct {
		results    limiter.Results
		x          string // X-RateLimit-Limit, -Remaining and -Reset
		retryAfter string
		rateLimit  string
	}{
		"the least remaining": {
			results: limiter.Results{fits(9, 8), fits(7, 3), fits(5, 4)}, x: "7 3 1",
			rateLimit: `"a";r=8;t=1, "b";r=3;t=1, "c";r=4;t=1`},
		"the first of equal ones": {
			results: limiter.Results{fits(9, 3), fits(7, 3)}, x: "9 3 1",
			rateLimit: `"a";r=3;t=1, "b";r=3;t=1`},
		"refuses, though more remains": {
			results: limiter.Results{refuses(9, 5, time.Minute), fits(7, 0)}, x: "9 5 3600", retryAfter: "60",
			rateLimit: `"a";r=5;t=60, "b";r=0;t=1`},
		"the longest wait": {
			results: limiter.Results{refuses(9, 0, time.Minute), refuses(7, 2, time.Hour)}, x: "7 2 3600", retryAfter: "3600",
			rateLimit: `"a";r=0;t=60, "b";r=2;t=3600`},
		"waiting does not help": {
			results: limiter.Results{refuses(9, 0, time.Minute), refuses(7, 7, limiter.NoRetry)}, x: "7 7 3600",
			rateLimit: `"a";r=0;t=60, "b";r=7;t=3600`},
		"a slot is free": {
			results: limiter.Results{fits(9, 8), slot}, x: "9 8 1", rateLimit: `"a";r=8;t=1, "b:slots";r=2`},
		"only a slot is missing": {
			results: limiter.Results{fits(9, 8), noSlot}, x: "3 0 1", retryAfter: "1",
			rateLimit: `"a";r=8;t=1, "b:slots";r=0;t=1`},
		"a slot is missing, and tokens for longer": {
			results: limiter.Results{refuses(9, 0, time.Minute), noSlot}, x: "9 0 3600", retryAfter: "60",
			rateLimit: `"a";r=0;t=60, "b:slots";r=0;t=1`},
		"a limit that is not valid": {
			results: limiter.Results{{}, fits(7, 3)}, x: "7 3 1", rateLimit: `"b";r=3;t=1`},
		"nothing valid": {results: limiter.Results{{}}, x: "  "},
		"nothing":       {x: "  "},
		"slots alone":   {results: limiter.Results{slot}, x: "  ", rateLimit: `"a:slots";r=2`},
	} {
		header := http.Header{}
		httplimit.SetHeaders(header, c.results, []string{"a", "b", "c"}[:len(c.results)]...)
		require.Equal(t, c.x, x(header), name)
		require.Equal(t, c.retryAfter, header.Get("Retry-After"), name)
		require.Equal(t, c.rateLimit, strings.Join(header.Values("RateLimit"), ", "), name)
		require.Len(t, header.Values("RateLimit-Policy"), len(header.Values("RateLimit")), name)
	}
	require.PanicsWithValue(t, "httplimit: SetHeaders needs a name for each Result: 1 names, 2 Results",
		func() { httplimit.SetHeaders(http.Header{}, make(limiter.Results, 2), "a") })
}

func x(header http.Header) string {
	return header.Get("X-RateLimit-Limit") + " " + header.Get("X-RateLimit-Remaining") + " " +
		header.Get("X-RateLimit-Reset")
}

// A second decision adds its members, and replaces members with the same names. X-RateLimit and
// Retry-After describe the decision with the longest wait, or with the least remaining.
func TestSetHeadersAgain(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	result := func(remaining int, wait time.Duration) limiter.Result {
		return limiter.Result{OK: wait == 0, Limit: slow(9), Remaining: remaining, RetryAfter: wait, ResetAfter: time.Second}
	}
	for name, c := range map[string]struct {
		first, second limiter.Result
		x, retryAfter string
	}{
		"less remaining":          {first: result(5, 0), second: result(3, 0), x: "9 3 1"},
		"more remaining":          {first: result(3, 0), second: result(5, 0), x: "9 3 1"},
		"refuses":                 {first: result(3, 0), second: result(5, minute), x: "9 5 1", retryAfter: "60"},
		"refused already":         {first: result(3, minute), second: result(2, 0), x: "9 3 1", retryAfter: "60"},
		"refuses for longer":      {first: result(3, minute), second: result(4, hour), x: "9 4 1", retryAfter: "3600"},
		"refuses for as long":     {first: result(3, minute), second: result(4, minute), x: "9 4 1", retryAfter: "60"},
		"refused for longer":      {first: result(3, hour), second: result(2, minute), x: "9 3 1", retryAfter: "3600"},
		"refuses for good":        {first: result(3, hour), second: result(2, limiter.NoRetry), x: "9 2 1"},
		"a fraction of a second":  {first: result(3, 0), second: result(4, 1), x: "9 4 1", retryAfter: "1"},
		"less, by as much as all": {first: result(1, 0), second: result(0, 0), x: "9 0 1"},
	} {
		header := http.Header{}
		httplimit.SetHeaders(header, limiter.Results{c.first}, "a")
		httplimit.SetHeaders(header, limiter.Results{c.second}, "b")
		require.Equal(t, c.x, x(header), name)
		require.Equal(t, c.retryAfter, header.Get("Retry-After"), name)
		require.Len(t, header.Values("RateLimit"), 2, name)
		httplimit.SetHeaders(header, limiter.Results{c.second}, "a")
		require.Len(t, header.Values("RateLimit"), 2, name)
		require.True(t, strings.HasPrefix(header.Values("RateLimit")[0], `"b";`), name)
	}
}

// The parts of a list of strings with parameters, after RFC 9651, sections 3.1, 3.1.2 and 4.2. The
// values of parameters that SetHeaders writes are integers of at most 15 digits, and strings.
const (
	sfString = `"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"`
	sfMember = sfString + `(?:;[a-z]+=(?:[0-9]{1,15}|` + sfString + `))*`
)

var ownMember, nameOfMember = regexp.MustCompile(`^` + sfMember + `$`), regexp.MustCompile(`^` + sfString)

// Whatever the names and numbers are, and whatever stands in the headers already, SetHeaders writes
// lists that clients can read, with each of its members once, and no control characters.
func FuzzSetHeaders(f *testing.F) {
	f.Add("api", 10, int64(time.Second), 3, int64(time.Second), `"other";r=1`, "7", "1.5")
	f.Add(`a"\b`+"\r\n", 0, int64(0), -1, int64(-1), "limit=100, remaining=50", "x", "Sat, 01 Jan 2000 00:00:00 GMT")
	f.Add("é\x00", 1<<62, int64(1), 1<<62, int64(limiter.NoRetry), `"a";x="\"", "b";pk=:YQ==:;y=?1`, "", "-1")
	f.Fuzz(func(t *testing.T, name string, capacity int, period int64, remaining int, wait int64,
		list, number, retryAfter string) {
		header := http.Header{}
		header.Set("RateLimit", list)
		header.Set("RateLimit-Policy", list)
		header.Set("X-RateLimit-Remaining", number)
		header.Set("Retry-After", retryAfter)
		limit := limiter.Per(1, time.Duration(period)).WithCapacity(capacity)
		if !isHeaderValue(list+number+retryAfter) || limit.Validate() != nil || remaining < 0 || wait < 0 {
			t.Skip() // neither net/http nor a Limiter makes these
		}
		tokens := limiter.Result{OK: wait == 0, Limit: limit, Remaining: remaining,
			RetryAfter: time.Duration(wait), ResetAfter: time.Duration(wait)}
		slot := limiter.Result{OK: remaining > 0, Slots: limiter.Slots{Max: max(capacity, 1)}, Remaining: remaining}
		httplimit.SetHeaders(header, limiter.Results{tokens, slot}, name, name)
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			lines := header.Values(name)
			own := lines[len(lines)-2:]
			times := map[string]int{}
			for _, line := range lines {
				require.Regexp(t, nameOfMember, line)
				require.True(t, isHeaderValue(line), "%q", line)
				times[nameOfMember.FindString(line)]++
			}
			for _, member := range own {
				require.Regexp(t, ownMember, member)
				require.Equal(t, 1, times[nameOfMember.FindString(member)], "%q", lines)
			}
		}
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
			require.LessOrEqual(t, len(header.Values(name)), 1)
			require.True(t, isHeaderValue(header.Get(name)))
		}
	})
}

// isHeaderValue reports whether net/http accepts the value of a header.
func isHeaderValue(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' && value[i] != '\t' || value[i] == 0x7f {
			return false
		}
	}
	return true
}
