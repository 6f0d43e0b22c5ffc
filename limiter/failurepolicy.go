package limiter

import (
	"fmt"
	"slices"
)

// A FailurePolicy says what a Limiter does with calls that Redis does not decide because it is
// down, does not answer in time, is loading, has no memory left, or denies access. No policy
// applies to a call that is wrong: its caller gets [ErrInvalid].
//
// With all policies but FailWithError, the caller gets a Result without an error, and Result.Source
// tells it from a decision of Redis. The Limiter logs when this begins, and when Redis has then
// decided all calls for 10 seconds.
type FailurePolicy int

const (
	// FailWithError returns the error, an [ErrUnavailable].
	FailWithError FailurePolicy = iota

	// FailOpen decides every call as if its funnel were empty, its quota unused and its slots free.
	// It limits only a quantity above the capacity and a quota of [Until] that has ended, and
	// accounts for nothing. Nobody counts the slots that it gives.
	FailOpen

	// FailClosed limits every call for tokens or slots. RetryAfter is one second, or [NoRetry] for
	// a quantity above the capacity and for a quota of [Until] that has ended. Charges are limited,
	// too, and are lost. [Limiter.Wait] asks again each second, which suits workers.
	FailClosed

	// FailLocal decides by funnels, slots and quotas inside this process, with the same limits.
	// They are empty when it begins, and each process has its own: n processes together may allow n
	// times the limit, and a burst more. At each change between Redis and the process, even one
	// process may allow the limit twice: neither of the two counts the tokens and the slots that
	// the other has given. A slot that this process has given stays here until it is released, even
	// if Redis is back. Each process may allow a quota once more in a period: for money, use
	// FailClosed.
	FailLocal
)

// policyNames are the texts of the constants, in their order.
var policyNames = []string{"error", "open", "closed", "local"}

// String returns error, open, closed or local.
func (p FailurePolicy) String() string { return policyNames[max(0, min(p, FailLocal))] }

// MarshalText returns the text that String returns.
func (p FailurePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts error, open, closed and local, for configuration files, flag.TextVar and
// the like.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	at := slices.Index(policyNames, string(text))
	if at < 0 {
		return fmt.Errorf("limiter: a failure policy is one of %q, not %q", policyNames, text)
	}
	*p = FailurePolicy(at)
	return nil
}
