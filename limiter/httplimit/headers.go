package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"funnel/gcra"
	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// The headers are named as http.Header keeps them.
const (
	limitHeader     = "X-Ratelimit-Limit"
	remainingHeader = "X-Ratelimit-Remaining"
	resetHeader     = "X-Ratelimit-Reset"
	policyList      = "Ratelimit-Policy"
	stateList       = "Ratelimit"
)

// maxInteger is the largest integer of structured fields (RFC 9651, section 3.3.1). It is sent
// instead of larger numbers.
const maxInteger = 999_999_999_999_999

// SetHeaders sets the headers that the middleware of [New] sets, for the results of one decision.
// Names has the name of the policy of each Result. A handler that asks a Limiter itself calls
// SetHeaders before it writes the answer:
//
//	results, err := l.AllowAll(ctx, minute, month)
//	...
//	httplimit.SetHeaders(w.Header(), results, "minute", "month")
//
// RateLimit-Policy and RateLimit get a member for each policy; a member that has the same name
// already is replaced.
//
// X-RateLimit-Limit, -Remaining and -Reset, and Retry-After, describe the policy that refuses the
// request. If several do, they describe the policy with the longest wait. If none does, X-RateLimit
// describes the policy with the least remaining, and Retry-After is not set. Headers that other
// policies have set before take part: they stay if their wait is longer, or less remains. All times
// are seconds, rounded up.
//
// If waiting does not help, because the request never fits, there is no Retry-After. If only a slot
// is missing, it is 1, because nobody knows when a slot comes free. The member of a Result on slots
// has ":slots" after the name, and the quota unit "concurrent-requests". X-RateLimit describes
// slots only if they refuse the request.
//
// SetHeaders sets nothing for a limit that is not valid. It panics unless there is one name for
// each Result.
func SetHeaders(header http.Header, results limiter.Results, names ...string) {
	if len(names) != len(results) {
		panic(fmt.Sprintf("httplimit: SetHeaders needs a name for each Result: %d names, %d Results",
			len(names), len(results)))
	}
	now := time.Now()
	var described limiter.Results // that have headers
	policies, states := make([]string, 0, len(results)), make([]string, 0, len(results))
	quoted := map[string]bool{}
	for i, result := range results {
		if result.Slots.Max == 0 && result.Limit.Validate() != nil {
			continue
		}
		described = append(described, result)
		name := quote(memberName(result, names[i]))
		quoted[name] = true
		policies = append(policies, name+policyOf(&result, now))
		states = append(states, name+stateOf(&result, now))
	}
	setMembers(header, policyList, quoted, policies)
	setMembers(header, stateList, quoted, states)
	refusing := policy.Refusing(described)
	if refusing >= 0 {
		setRefusal(header, &described[refusing], now)
		return
	}
	fullest := fullest(described)
	if fullest != nil && !isFuller(header, fullest.Remaining) {
		setNumbers(header, fullest, now)
	}
}

// memberName returns the name of the member for a Result.
func memberName(result limiter.Result, name string) string {
	if result.Slots.Max > 0 {
		return name + ":slots"
	}
	return name
}

// policyOf returns the parameters of a member of RateLimit-Policy.
func policyOf(result *limiter.Result, now time.Time) string {
	if result.Slots.Max > 0 {
		return ";q=" + integer(int64(result.Slots.Max)) + `;qu="concurrent-requests"`
	}
	return ";q=" + integer(int64(result.Limit.Max())) + window(result.Limit, now)
}

// window returns the parameter w. For AtMost and Window, w is their second argument; for another
// rate, the time in which the whole capacity leaks; for a quota, the length of its period. A quota
// of one period has no w.
func window(limit limiter.Limit, now time.Time) string {
	within := limit.Within()
	rate, err := limit.Rate()
	begin, end := limit.PeriodAt(now)
	switch {
	case within > 0:
	case err == nil:
		within = time.Duration(rate.Tolerance())
	case begin.IsZero():
		return ""
	default:
		within = end.Sub(begin)
	}
	return ";w=" + integer(seconds(within))
}

// stateOf returns the parameters of a member of RateLimit. In a limited response t is the wait, as
// Retry-After says: a client may read either. A request that never fits has no wait: t is then the
// time until the reset.
func stateOf(result *limiter.Result, now time.Time) string {
	remaining := ";r=" + integer(int64(result.Remaining))
	wait := policy.RetryAfter(*result)
	switch {
	case result.Limited() && wait > 0:
		return remaining + ";t=" + integer(seconds(wait))
	case result.Slots.Max > 0: // nobody knows when slots come free
		return remaining
	}
	return remaining + ";t=" + integer(seconds(resetAfter(result, now)))
}

// resetAfter returns the time until the whole capacity fits. For a quota it is the time until its
// period ends, even if nothing is used.
func resetAfter(result *limiter.Result, now time.Time) time.Duration {
	if result.ResetAfter > 0 {
		return result.ResetAfter
	}
	_, end := result.Limit.PeriodAt(now)
	return max(0, end.Sub(now))
}

// setRefusal sets the headers for the Result that refuses the request, unless another policy has
// set a longer wait.
func setRefusal(header http.Header, result *limiter.Result, now time.Time) {
	wait := policy.RetryAfter(*result)
	switch {
	case wait == 0:
		header.Del("Retry-After")
	case retryAfter(header, now) > wait:
		return
	default:
		header.Set("Retry-After", integer(seconds(wait)))
	}
	setNumbers(header, result, now)
}

// fullest returns the Result on tokens with the least remaining, or nil.
func fullest(results limiter.Results) (found *limiter.Result) {
	for i := range results {
		result := &results[i]
		if result.Slots.Max == 0 && (found == nil || result.Remaining < found.Remaining) {
			found = result
		}
	}
	return found
}

// isFuller reports whether the headers describe a policy with no more remaining than that number,
// or a policy that refuses the request.
func isFuller(header http.Header, remaining int) bool {
	other, err := strconv.Atoi(header.Get(remainingHeader))
	return err == nil && (other <= remaining || header.Get("Retry-After") != "")
}

// setNumbers sets the headers that describe one policy.
func setNumbers(header http.Header, result *limiter.Result, now time.Time) {
	limit, reset := result.Limit.Max(), seconds(resetAfter(result, now))
	if result.Slots.Max > 0 {
		limit, reset = result.Slots.Max, seconds(policy.RetryAfter(*result))
	}
	header.Set(limitHeader, integer(int64(limit)))
	header.Set(remainingHeader, integer(int64(result.Remaining)))
	header.Set(resetHeader, integer(reset))
}

// quote writes a string as structured fields do (RFC 9651, section 3.3.3). In headers, characters
// that they may not hold are replaced by question marks.
func quote(text string) string {
	ascii := strings.Map(func(letter rune) rune {
		if letter < ' ' || letter > '~' {
			return '?'
		}
		return letter
	}, text)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(ascii) + `"`
}

// seconds rounds up: a client that waits that long is not too early.
func seconds(d time.Duration) int64 { return gcra.Seconds(int64(d)) }

func integer(number int64) string { return strconv.FormatInt(min(number, maxInteger), 10) }
