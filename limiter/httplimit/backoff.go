package httplimit

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
	"funnel/limiter/internal/wait"
)

// rateKey returns the key of the funnel of a service.
func rateKey(key string) string { return policy.WithKind(key, "rate") }

// backOffKey returns the key of the funnel by which processes tell each other to back off.
func backOffKey(key string) string { return policy.WithKind(key, "backoff") }

// backOff returns how long requests of that key have to wait because this process, or another one,
// has got a Retry-After. Peek reports the remaining back-off, whatever period the token was
// reserved with.
func (t *Transport) backOff(ctx context.Context, key string) (time.Duration, error) {
	result, err := t.Limiter.Peek(ctx, backOffKey(key), limiter.Every(time.Second))
	if err != nil {
		return 0, err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	rest := max(time.Until(t.retryAt.Get(key)), 0)
	if result.Limited() {
		rest = max(rest, result.RetryAfter)
	}
	return rest, nil
}

// noteRetryAfter makes all processes wait if the response says so.
func (t *Transport) noteRetryAfter(ctx context.Context, key string, response *http.Response) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return
	}
	maxBackOff := t.MaxBackOff
	if maxBackOff == 0 {
		maxBackOff = time.Minute
	}
	now := time.Now()
	after := min(retryAfter(response.Header, now), maxBackOff)
	if after <= 0 {
		return
	}
	t.mutex.Lock()
	at := now.Add(after)
	if at.After(t.retryAt.Get(key)) {
		t.retryAt.Add(key, at, func(_ string, at time.Time) bool { return at.Before(now) })
	}
	t.mutex.Unlock()
	// The response is there already: other processes have to back off even if the caller has gone.
	detach(ctx, func(ctx context.Context) {
		_, err := t.Limiter.Reserve(ctx, backOffKey(key), limiter.Every(after), 1, 0)
		if err != nil {
			slog.WarnContext(ctx, "only this process backs off: Redis did not store the back-off for other processes",
				"key", key, "retry_after", after, "error", err)
		}
	})
}

// detach runs do to its end even if ctx is done. It returns when do has returned or ctx is done,
// because Redis may not answer for a long time.
func detach(ctx context.Context, do func(context.Context)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(context.WithoutCancel(ctx))
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// retryAfter returns the time of the header Retry-After, or 0 or less if the header is missing or
// not valid. It is a number of seconds or a date (RFC 9110, section 10.2.3). A date is compared
// with the Date of the response, because the clocks of both sides may differ.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	wait, isNumber := parseSeconds(text)
	if isNumber {
		return wait
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err == nil {
		now = date
	}
	return until.Sub(now)
}

// maxSeconds are the most whole seconds that a Duration holds.
const maxSeconds = uint64(wait.Forever / time.Second)

// parseSeconds reads whole seconds, or a decimal, which many services send against the RFC.
// Decimals are rounded up to a whole second, so that a request is not too early: "0.493" is 1 s,
// and "120.0" is 120 s.
func parseSeconds(text string) (d time.Duration, isNumber bool) {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	if !isDigits(whole) || hasPoint && !isDigits(fraction) {
		return 0, false
	}
	seconds, err := strconv.ParseUint(whole, 10, 64)
	if err != nil { // out of range
		seconds = maxSeconds
	}
	if strings.Trim(fraction, "0") != "" && seconds < maxSeconds {
		seconds++
	}
	return time.Duration(min(seconds, maxSeconds)) * time.Second, true
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
