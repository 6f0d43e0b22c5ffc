package limiter

import (
	"fmt"
	"slices"
)

// A FailurePolicy is what to do if Redis cannot decide: it is down, does not answer in time, is
// loading, has no memory left, denies access, ... The error of a call that is wrong is always
// returned.
//
// All but FailWithError return a result without an error, whose Source tells it from decisions of
// Redis. The Limiter logs when this begins, and when Redis has decided all calls for 10 seconds.
type FailurePolicy int

const (
	// FailWithError returns the error, an [ErrUnavailable].
	FailWithError FailurePolicy = iota

	// FailOpen decides every call as if its funnel or quota were empty: it allows all but a
	// quantity above the capacity, and accounts for nothing. Nobody counts its slots.
	FailOpen

	// FailClosed limits every call for tokens. RetryAfter is one second, or NoRetry for a
	// quantity above the capacity. Charges are limited, too: nothing accounts for them.
	// [Limiter.Wait] then asks again each second, which suits workers.
	FailClosed

	// FailLocal uses funnels, slots and quotas inside this process, with the same limits. They are
	// empty when it begins, and each process has its own: n processes together may
	// allow n times the limit, and a burst more. Each change between Redis and the process may allow
	// the limit twice, even of one process: neither counts what the other has given, neither tokens
	// nor slots that are still held. A slot stays here until it is released, even if Redis is back.
	// Each process may allow a quota once more in a period: for money, use FailClosed.
	FailLocal
)

// policyNames are the names of the constants without Fail, in lower case.
var policyNames = []string{"error", "open", "closed", "local"}

// String is the name of the constant without Fail, in lower case.
func (p FailurePolicy) String() string { return policyNames[max(0, min(p, FailLocal))] }

// MarshalText returns what String returns.
func (p FailurePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts error, open, closed and local, for configuration files, flag.TextVar and the like.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	at := slices.Index(policyNames, string(text))
	if at < 0 {
		return fmt.Errorf("limiter: a failure policy is one of %q, not %q", policyNames, text)
	}
	*p = FailurePolicy(at)
	return nil
}
