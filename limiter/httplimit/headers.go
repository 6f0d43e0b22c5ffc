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

// setHeaders sets the headers for that result, but for Retry-After. A limit that is not valid
// has none.
func (m *middleware) setHeaders(header http.Header, result limiter.Result) {
	quota := m.quota
	if result.Limit != m.limit {
		quota = quotaOf(result.Limit)
	}
	if quota == "" {
		return
	}
	reset := integer(seconds(result.ResetAfter))
	remaining := integer(int64(result.Remaining))

	// A request that never fits has no time to retry: t is that of the reset then.
	again := reset
	if result.Limited() && Status(result) == http.StatusTooManyRequests {
		again = integer(seconds(result.RetryAfter))
	}
	header.Add("RateLimit-Policy", m.quotedName+quota)
	header.Add("RateLimit", m.quotedName+";r="+remaining+";t="+again)

	if other, err := strconv.Atoi(header.Get("X-RateLimit-Remaining")); err == nil && other <= result.Remaining {
		return
	}
	header.Set("X-RateLimit-Limit", integer(int64(result.Limit.Capacity)))
	header.Set("X-RateLimit-Remaining", remaining)
	header.Set("X-RateLimit-Reset", reset)
}

// quotaOf is what the header RateLimit-Policy says of a limit: as many tokens as the funnel
// holds, in the time in which that many leak.
func quotaOf(limit limiter.Limit) string {
	rate, err := limit.Rate()
	if err != nil {
		return ""
	}
	return ";q=" + integer(int64(limit.Capacity)) + ";w=" + integer(gcra.Seconds(rate.Tolerance()))
}

// quote writes a string as structured fields do (RFC 9651, section 3.3.3).
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// seconds rounds up: a client that waits that long is not too early.
func seconds(d time.Duration) int64 { return gcra.Seconds(int64(d)) }

func integer(number int64) string { return strconv.FormatInt(min(number, largestInteger), 10) }
