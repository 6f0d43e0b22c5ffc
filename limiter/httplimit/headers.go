package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"funnel/gcra"
	"funnel/limiter"
)

// largestInteger is the largest that structured fields can hold (RFC 9651, section
// 3.3.1). Larger numbers are sent as this one.
const largestInteger = 999_999_999_999_999

// SetHeaders sets the headers that the middleware of [New] sets for a Result of the policy with
// that name: RateLimit-Policy and RateLimit get a member more, X-RateLimit-Limit, -Remaining and
// -Reset tell of the policy with the least remaining, and Retry-After is set where the request is
// limited and can be repeated, to the longest wait of all policies. A handler that decides itself calls it before it writes. It sets
// nothing where the limit is not valid. The name is one that [WithName] accepts. Call it once for
// each policy: what the middleware has set tells the state before a handler settles.
func SetHeaders(header http.Header, name string, result limiter.Result) {
	rate, err := result.Limit.Rate()
	if err != nil {
		return
	}
	quoted := quote(name)
	window := integer(gcra.Seconds(rate.Tolerance())) // in which the whole capacity leaks
	remaining := integer(int64(result.Remaining))
	reset := integer(seconds(result.ResetAfter))

	// A request that never fits has no time to retry: t is that of the reset then.
	again := reset
	if result.Limited() && Status(result) == http.StatusTooManyRequests {
		again = integer(seconds(result.RetryAfter))
		if other, err := strconv.ParseInt(header.Get("Retry-After"), 10, 64); err != nil || other < seconds(result.RetryAfter) {
			header.Set("Retry-After", again)
		}
	}
	header.Add("RateLimit-Policy", quoted+";q="+integer(int64(result.Limit.Capacity))+";w="+window)
	header.Add("RateLimit", quoted+";r="+remaining+";t="+again)

	if other, err := strconv.Atoi(header.Get("X-RateLimit-Remaining")); err == nil && other <= result.Remaining {
		return
	}
	header.Set("X-RateLimit-Limit", integer(int64(result.Limit.Capacity)))
	header.Set("X-RateLimit-Remaining", remaining)
	header.Set("X-RateLimit-Reset", reset)
}

// quote writes a string as structured fields do (RFC 9651, section 3.3.3).
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// seconds rounds up: a client that waits that long is not too early.
func seconds(d time.Duration) int64 { return gcra.Seconds(int64(d)) }

func integer(number int64) string { return strconv.FormatInt(min(number, largestInteger), 10) }
