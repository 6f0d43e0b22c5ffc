package httplimit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"funnel/limiter"
)

// backOffKey returns the key of the funnel by which processes tell each other to back off. In a cluster, both keys are
// in one hash slot if the Limiter has no prefix and the key has no braces.
func backOffKey(key string) string { return "{" + key + "}:backoff" }

// backOff returns how long requests of that key have to wait because this process, or another one, has got a
// Retry-After. Peek reports the remaining back-off, whatever period the token was reserved with.
func (t *Transport) backOff(ctx context.Context, key string) (time.Duration, error) {
	result, err := t.Limiter.Peek(ctx, backOffKey(key), limiter.Every(time.Second))
	if err != nil {
		return 0, err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	wait := max(time.Until(t.retryAt.Get(key)), 0)
	if result.Limited() {
		wait = max(wait, result.RetryAfter)
	}
	return wait, nil
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
	wait := min(retryAfter(response.Header, now), maxBackOff)
	if wait <= 0 {
		return
	}
	t.mutex.Lock()
	if at := now.Add(wait); at.After(t.retryAt.Get(key)) {
		t.retryAt.Add(key, at, func(_ string, at time.Time) bool { return at.Before(now) })
	}
	t.mutex.Unlock()
	// The response is there already: other processes have to back off even if the caller has gone.
	detach(ctx, func(ctx context.Context) {
		if _, err := t.Limiter.Reserve(ctx, backOffKey(key), limiter.Every(wait), 1, 0); err != nil {
			slog.WarnContext(ctx, "only this process backs off: Redis did not store the back-off for other processes",
				"key", key, "retry_after", wait, "error", err)
		}
	})
}

// detach runs do to its end even if ctx is done. It returns when either is: Redis may not answer for a long time.
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

// retryAfter returns the time of the header Retry-After, which has seconds or a date (RFC 9110, section 10.2.3), or 0
// or less if the header is missing or not valid. A date is compared with the Date of the response, because the clocks
// of both sides may differ.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(forever/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return until.Sub(now)
}
