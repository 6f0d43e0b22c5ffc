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

// Shadow tries limits on real traffic. AllowN of the Allower that it returns asks l, which
// takes the tokens if they fit, and allows the call in any case. It returns no error.
//
// Report gets each Result that is limited, and each error, except for calls whose context is
// canceled. It must be quick, and safe for concurrent use. If it is nil, slog gets a line for each.
//
// The Result that the caller gets is then OK: Allowed is the quantity, and RetryAfter is 0. Remaining and ResetAfter
// tell the state of the funnel. Without a decision there is no Limit, and Source is [FromOpen].
//
// Calls still wait for Redis: give l [WithTimeout]. Shadow panics if l is nil.
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
