package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"funnel/gcra"
	"funnel/limiter"
)

// maxInteger is the largest integer of structured fields (RFC 9651, section 3.3.1). It is sent instead of larger
// numbers.
const maxInteger = 999_999_999_999_999

// SetHeaders sets the headers that the middleware of [New] sets for a Result of the policy with that name. It adds one
// member each to RateLimit-Policy and RateLimit. X-RateLimit-Limit, -Remaining and -Reset describe the policy with the
// least remaining. If the request is limited and can be repeated, Retry-After is the longest wait of all policies. All
// times are seconds, rounded up.
//
// A handler that asks a Limiter itself calls SetHeaders before it writes the answer, once for each policy. [WithName]
// says which names are accepted. SetHeaders sets nothing for a limit that is not valid.
//
// A Result on slots gets a member of its own, with ":slots" after the name and the quota unit "concurrent-requests". If
// only a slot is missing, Retry-After is 1, because nobody knows when a slot comes free. X-RateLimit describes the
// slots only if they limit the request.
func SetHeaders(header http.Header, name string, result limiter.Result) {
	if result.Slots.Max > 0 {
		setSlotsHeaders(header, quote(name+":slots"), result)
		return
	}
	if result.Limit.Validate() != nil {
		return
	}
	quoted, now := quote(name), time.Now()
	reset := integer(seconds(resetAfter(&result, now)))
	setLeast(header, result.Limit.Capacity, result.Remaining, reset, result.Limited())

	// A request that never fits has no retry after: t is then the reset after.
	again := reset
	if result.Limited() && result.RetryAfter != limiter.NoRetry {
		again = integer(seconds(result.RetryAfter))
		setRetryAfter(header, seconds(result.RetryAfter))
	}
	header.Add("RateLimit-Policy", quoted+";q="+integer(int64(result.Limit.Capacity))+window(result.Limit, now))
	header.Add("RateLimit", quoted+";r="+integer(int64(result.Remaining))+";t="+again)
}

// window returns the parameter w: the time in which the whole capacity leaks, or the length of a quota's period. A
// quota of one period has no w.
func window(limit limiter.Limit, now time.Time) string {
	rate, err := limit.Rate()
	if err == nil {
		return ";w=" + integer(gcra.Seconds(rate.Tolerance()))
	}
	begin, end := limit.PeriodAt(now)
	if begin.IsZero() {
		return ""
	}
	return ";w=" + integer(seconds(end.Sub(begin)))
}

// resetAfter returns the time until the whole capacity fits. For a quota it is the time until its period ends, even if
// nothing is used.
func resetAfter(result *limiter.Result, now time.Time) time.Duration {
	if result.ResetAfter > 0 {
		return result.ResetAfter
	}
	_, end := result.Limit.PeriodAt(now)
	return max(0, end.Sub(now))
}

// slotsRetryAfter is how many seconds a request for which only a slot is missing should wait.
const slotsRetryAfter = 1

// setSlotsHeaders sets the headers for a Result on slots.
func setSlotsHeaders(header http.Header, quoted string, result limiter.Result) {
	header.Add("RateLimit-Policy", quoted+";q="+integer(int64(result.Slots.Max))+`;qu="concurrent-requests"`)
	member := quoted + ";r=" + integer(int64(result.Remaining))
	if result.Limited() {
		member += ";t=" + integer(slotsRetryAfter)
		setLeast(header, result.Slots.Max, result.Remaining, integer(slotsRetryAfter), true)
		setRetryAfter(header, slotsRetryAfter)
	}
	header.Add("RateLimit", member)
}

// setRetryAfter sets Retry-After, unless another policy has set a longer time.
func setRetryAfter(header http.Header, after int64) {
	if other, err := strconv.ParseInt(header.Get("Retry-After"), 10, 64); err != nil || other < after {
		header.Set("Retry-After", integer(after))
	}
}

// setLeast sets the headers that hold one number, unless another policy has less remaining. If as much remains,
// the first policy that limits the request counts: before it, there is no Retry-After.
func setLeast(header http.Header, limit, remaining int, reset string, limited bool) {
	other, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	isFirst := limited && header.Get("Retry-After") == ""
	if err == nil && (other < remaining || other == remaining && !isFirst) {
		return
	}
	header.Set("X-RateLimit-Limit", integer(int64(limit)))
	header.Set("X-RateLimit-Remaining", integer(int64(remaining)))
	header.Set("X-RateLimit-Reset", reset)
}

// quote writes a string as structured fields do (RFC 9651, section 3.3.3).
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// seconds rounds up: a client that waits that long is not too early.
func seconds(d time.Duration) int64 { return gcra.Seconds(int64(d)) }

func integer(number int64) string { return strconv.FormatInt(min(number, maxInteger), 10) }
