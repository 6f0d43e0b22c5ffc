package limiter

import (
	"context"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
)

// A FailurePolicy is what to do when Redis cannot decide: it is down, does not answer in time, is
// loading, has no memory left, denies access, ... The error of a call that is wrong is always
// returned.
//
// All but FailWithError return a result without an error, whose Path tells it from decisions of
// Redis. The Limiter logs when this begins, and when Redis has decided all calls for 10 seconds.
type FailurePolicy int

const (
	// FailWithError returns the error.
	FailWithError FailurePolicy = iota

	// FailOpen decides every call as if its funnel were empty: it allows all but a quantity
	// above the capacity, and accounts for nothing. Nobody counts its slots.
	FailOpen

	// FailClosed limits every call for tokens. RetryAfter is one second, or NoRetry for a
	// quantity above the capacity. Charges are limited, too: nothing accounts for them.
	FailClosed

	// FailLocal uses funnels and slots inside this process, with the same limits. They are
	// empty when it begins, and each process has its own: n processes together may
	// allow n times the limit, and a burst more. A slot stays here until it is released, also
	// when Redis is back.
	FailLocal
)

// closedRetryAfter is the RetryAfter of FailClosed.
const closedRetryAfter = time.Second

// String is the name of the constant without Fail, in lower case.
func (p FailurePolicy) String() string {
	return [...]string{"error", "open", "closed", "local"}[max(0, min(p, FailLocal))]
}

// fallback answers a query that Redis has not, because of cause.
func (l *Limiter) fallback(ctx context.Context, q *query, cause error) (answer, error) {
	if l.policy == FailWithError {
		return answer{}, cause
	}
	l.outage.failed(ctx, l.logger, l.now(), l.policy, cause)
	switch l.policy {
	case FailOpen:
		return l.decideOpen(q)
	case FailClosed:
		return decideClosed(q), nil
	default:
		return l.decideLocally(q)
	}
}

// decideOpen decides as if all funnels were empty.
func (l *Limiter) decideOpen(q *query) (answer, error) {
	rows := q.rows()
	if _, err := q.operation.Apply(rows, l.now().UnixNano(), int64(q.maxWait), q.receipt); err != nil {
		return answer{}, q.wrap(err)
	}
	return newAnswer(q, PathOpen, rows), nil
}

func decideClosed(q *query) answer {
	a := newAnswer(q, PathClosed, q.rows())
	a.limited = true
	for i := range q.funnels {
		f, wait := &q.funnels[i], int64(closedRetryAfter)
		if f.Quantity > f.Limit.Capacity && q.operation != call.Take {
			wait = gcra.Never
		}
		a.on(i).Decision = call.Decision{Limited: true, Wait: wait, ResetAfter: f.args.rate.Tolerance()}
	}
	return a
}

// decideLocally decides by the funnels in this process.
func (l *Limiter) decideLocally(q *query) (answer, error) {
	rows := q.rows()
	if err := l.local.Apply(q.operation, q.keys(), q.funnels[0].holder, rows, int64(q.maxWait), q.receipt); err != nil {
		return answer{}, q.wrap(err)
	}
	a := newAnswer(q, PathLocal, rows)
	for i := range rows {
		if rows[i].Kind == call.Funnel && rows[i].Changes() && q.operation != call.Refund {
			a.on(i).receipt = rows[i].Funnel.Decision.TAT
		}
	}
	return a, nil
}
