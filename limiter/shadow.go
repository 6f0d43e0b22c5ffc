package limiter

import (
	"context"
	"errors"
	"log/slog"

	"funnel/internal/isnil"
)

// An Allower decides calls for tokens, as [Limiter.AllowN] says: a [Limiter], what wraps one,
// or what takes its place in tests.
type Allower interface {
	AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error)
}

// Shadow tries limits on real traffic. AllowN of the Allower that it returns asks l, which
// takes the tokens where they fit, and then allows the call. It returns no error.
//
// Report is called for each call that l limits, and for each that l cannot decide: then err is
// not nil. It gets the Result of l, and must be quick, and safe for concurrent use. A call whose
// context is canceled while it is undecided is not reported: its caller has gone. If report is
// nil, [log/slog.Default] gets a line for each of these calls.
//
// The Result of such a call is allowed: Allowed is the quantity, also above the capacity, and
// RetryAfter is [NoRetry], though a limited call takes nothing. Remaining and ResetAfter tell the
// state of the funnel, and so do headers that are made from them. Without a decision they tell
// of an empty funnel, and Path is [PathOpen]; a limit that is not valid is left out.
//
// Calls still wait for Redis: give l [WithTimeout]. Hooks of l see its own decisions. To count
// them apart, give Shadow a Limiter of its own, or count in report.
//
// Shadow panics when l is nil.
func Shadow(l Allower, report func(ctx context.Context, result Result, err error)) Allower {
	if isnil.Is(l) {
		panic("limiter: Shadow needs a Limiter, not nil")
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
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		s.tell(ctx, key, result, err)
	}
	if err != nil {
		result = undecided(limit, quantity)
	}
	result.Allowed, result.RetryAfter = max(quantity, 0), NoRetry
	return result, nil
}

func (s *shadow) tell(ctx context.Context, key string, result Result, err error) {
	switch {
	case s.report != nil:
		s.report(ctx, result, err)
	case err != nil:
		slog.ErrorContext(ctx, "shadow: no decision about a call", "key", key, "error", err)
	default:
		slog.InfoContext(ctx, "shadow: this call would be limited", "key", key, "limit", result.Limit.String(),
			"quantity", result.Quantity, "retry_after", result.RetryAfter)
	}
}

// undecided is the Result of a call that nothing has decided: of an empty funnel.
func undecided(limit Limit, quantity int) Result {
	if _, err := limit.Rate(); err != nil {
		limit = Limit{} // or the capacity could be below the quantity 0, and limit it
	}
	return Result{Limit: limit, Quantity: quantity, Remaining: limit.Capacity, Path: PathOpen}
}
