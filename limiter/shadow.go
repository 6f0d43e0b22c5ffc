package limiter

import (
	"context"
	"errors"
	"log/slog"

	"funnel/internal/isnil"
)

// An Allower decides calls as [Limiter.AllowN] does: a [Limiter], a wrapper of one, or a fake.
type Allower interface {
	AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error)
}

// Shadow tries limits on real traffic. It returns an Allower whose AllowN asks l, which takes the
// tokens if they fit, and then allows the call in any case, without an error.
//
// Shadow passes each limited Result to report, and each error, unless the context of the call is
// canceled. Report must be quick, and safe for concurrent use. If report is nil, slog gets a line
// for each of these calls.
//
// The caller of such a call gets a Result that is OK: Allowed is the quantity, and RetryAfter is 0.
// Remaining and ResetAfter tell the state of the funnel. If l returned an error, the Limit is zero,
// and Source is [FromOpen].
//
// Calls wait for Redis as they do without Shadow: give l [WithTimeout]. Shadow panics if l is nil.
func Shadow(l Allower, report func(ctx context.Context, result Result, err error)) Allower {
	if isnil.Is(l) {
		panic("limiter: Shadow needs a Limiter, not nil")
	}
	if report == nil {
		report = logShadow
	}
	return &shadow{l, report}
}

type shadow struct {
	limiter Allower
	report  func(ctx context.Context, result Result, err error)
}

func (s *shadow) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	result, err := s.limiter.AllowN(ctx, key, limit, quantity)
	if err == nil && !result.Limited() {
		return result, nil
	}
	result.Key = key
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		s.report(ctx, result, err)
	}
	if err != nil {
		result = Result{Key: key, Quantity: quantity, Source: FromOpen}
	}
	result.Allowed, result.OK, result.RetryAfter = max(quantity, 0), true, 0
	return result, nil
}

func logShadow(ctx context.Context, result Result, err error) {
	if err != nil {
		slog.ErrorContext(ctx, "shadow: no decision about a call", "key", result.Key, "error", err)
		return
	}
	slog.InfoContext(ctx, "shadow: this call would be limited", "key", result.Key,
		"limit", result.Limit.String(), "quantity", result.Quantity, "retry_after", result.RetryAfter)
}
