package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A Refusal says why a request is limited. If several limits of a policy refuse the request, it is
// about the limit with the longest wait.
type Refusal struct {
	// Policy is the name of the limit that refuses the request, as [New] or [WithAlso] got it.
	Policy string

	// Result is the decision of that limit. If only a slot is missing ([WithSlots]), Result.Slots
	// is not zero.
	Result limiter.Result

	// RetryAfter is the time in the header Retry-After: whole seconds. It is 0, and there is no
	// header, if waiting does not help: if the request costs more than the capacity, or the quota
	// of [limiter.Until] has ended.
	RetryAfter time.Duration
}

// Status returns the status of a limited request: 429 Too Many Requests, or 413 Content Too Large
// if it costs more than the capacity.
func (r Refusal) Status() int {
	if r.isTooLarge() {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusTooManyRequests
}

func (r Refusal) isTooLarge() bool {
	return r.Result.RetryAfter == limiter.NoRetry && r.Result.Quantity > r.Result.Limit.Capacity
}

// String returns a line of text that says what to do: "too many requests: try again in 2 seconds
// (policy "login")".
func (r Refusal) String() string {
	text := "too many requests: the quota has ended"
	switch {
	case r.Result.Slots.Max > 0:
		text = "too many requests at once: try again in a moment"
	case r.isTooLarge():
		text = fmt.Sprintf("request too large: it costs %d, and at most %d can be granted",
			r.Result.Quantity, r.Result.Limit.Capacity)
	case r.RetryAfter == time.Second:
		text = "too many requests: try again in 1 second"
	case r.RetryAfter > 0:
		text = fmt.Sprintf("too many requests: try again in %d seconds", r.RetryAfter/time.Second)
	}
	return fmt.Sprintf("%s (policy %q)", text, r.Policy)
}

func answerLimited(w http.ResponseWriter, _ *http.Request, refusal Refusal) {
	http.Error(w, refusal.String(), refusal.Status())
}

func answerError(w http.ResponseWriter, r *http.Request, err error) {
	status := policy.StatusOf(r.Context(), err)
	if status != http.StatusServiceUnavailable {
		http.Error(w, http.StatusText(status), status)
		return
	}
	text := "rate limits cannot be checked: try again in 1 second"
	if r.Context().Err() != nil {
		text = "the deadline of the request has passed: try again in 1 second"
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, text, status)
}
