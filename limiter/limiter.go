package limiter

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"funnel/internal/call"
	"funnel/internal/isnil"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/guard"
	"funnel/limiter/internal/line"
	"funnel/limiter/internal/local"
	"funnel/limiter/internal/redis"
)

// A Limiter limits calls by funnels, slots and quotas: in Redis if it is made by [New], in this process if it is made
// by [NewLocal]. All methods may be called from any number of goroutines.
//
// A method returns an error if there is no decision: [ErrInvalid] for a call that is wrong, the cause of a context that
// is done, and, unless [OnFailure] says otherwise, [ErrUnavailable] if Redis does not decide. A Result that comes with
// an error is limited.
type Limiter struct {
	settings
	words wordsCache
	now   func() time.Duration // since the Limiter was made: a wall clock that steps does not change it
	wall  func() time.Time     // tells which period of a quota runs

	isCluster atomic.Bool // the keys of a call may be on several nodes
	refusals  refusals    // of calls over several nodes

	local   *local.Rows     // rows in this process
	shared  backend.Backend // counts for all processes: Redis behind its guard. For [NewLocal] it is local
	backend backend.Backend // asks shared, and then the policy of [OnFailure] if shared fails
	stores  []store         // all stores that may have a key

	lines *line.Lines[lineKey, []Request] // of callers that wait for slots
}

// A store keeps rows under their keys.
type store interface {
	Reset(ctx context.Context, key string) error
}

// New returns a Limiter that uses rdb. It sends nothing yet. Share one Limiter between all
// requests: it remembers whether the server has the module.
//
// New panics if rdb is nil or an option is not valid.
func New(rdb Client, options ...Option) *Limiter {
	if isnil.Is(rdb) {
		panic("limiter: New needs a client of Redis, not nil")
	}
	l := NewLocal(options...)
	l.useRedis(rdb)
	return l
}

// useRedis makes the Limiter ask Redis.
func (l *Limiter) useRedis(rdb Client) {
	server := redis.New(rdb, string(l.source), completeText, l.now, l.wall)
	l.isCluster.Store(server.IsCluster())
	guarded := guard.NewNodes(server, l.timeout, l.now)
	l.shared, l.backend = guarded, guarded
	if fallback := l.fallback(); fallback != nil {
		l.backend = guard.NewFallback(l.onFailure.String(), guarded, fallback, l.logger, l.now)
	}
	l.stores = append(l.stores, guarded)
}

// fallback returns the backend that decides if Redis fails, or nil if the caller gets the error.
func (l *Limiter) fallback() backend.Backend {
	switch l.onFailure {
	case FailOpen:
		return guard.Open{Wall: l.wall}
	case FailClosed:
		return guard.Closed{Wall: l.wall}
	case FailLocal:
		return l.local
	}
	return nil
}

// NewLocal returns a Limiter that keeps funnels, slots and quotas in this process and never asks Redis: for tests, and
// for programs of one process. Options that concern Redis have no effect. In a bubble of testing/synctest the Limiter
// uses the clock of the bubble.
//
// NewLocal panics if an option is not valid.
func NewLocal(options ...Option) *Limiter {
	began := time.Now()
	return newLocal(func() time.Duration { return time.Since(began) }, time.Now, options)
}

func newLocal(now func() time.Duration, wall func() time.Time, options []Option) *Limiter {
	l := &Limiter{settings: settings{maxWait: maxDuration, maxWaiting: math.MaxInt, logger: slog.Default()},
		now: now, wall: wall, lines: line.New[lineKey, []Request](now)}
	for _, option := range options {
		option(&l.settings)
	}
	l.refusals.now = now
	l.local = local.New(now, wall)
	l.shared, l.backend, l.stores = l.local, l.local, []store{l.local}
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, at least 0, from the funnel or the quota of that key: all of them, or none if they do
// not fit. A quantity above the capacity never fits: RetryAfter is then [NoRetry].
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.queryFor(call.Reserve, key, limit, quantity)) // with a MaxWait of 0
}

// AllowAtMost takes as many whole tokens as fit, up to quantity, which is at least 0. Result.Allowed is the number of
// tokens that it took. If none fits, the call is limited, and RetryAfter is the time until one fits.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.queryFor(call.Take, key, limit, quantity))
}

// Peek decides as Allow would, and takes nothing: Allowed is 0, and Remaining and ResetAfter tell the state as it is. A
// client that reads from replicas sends it to a replica.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.decideOne(ctx, l.queryFor(call.Peek, key, limit, 1))
}

// Charge accounts for quantity tokens that were used, at least 0, even if they do not fit. The quantity may be above
// the capacity. A funnel that is overfull then limits calls until enough has leaked, and a quota until its period ends.
// Result.RetryAfter is the time until then, or 0 if nothing is overfull.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.queryFor(call.Charge, key, limit, quantity))
}

// decideOne decides a call of one row.
func (l *Limiter) decideOne(ctx context.Context, q *query) (Result, error) {
	_, err := l.decide(ctx, l.backend, q)
	return q.results[0], err
}

// Reset deletes a key by DEL, whatever it holds: a funnel, a quota or slots. It returns [ErrUnavailable] if Redis does
// not answer, whatever [OnFailure] says.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	for _, store := range l.stores {
		if err := store.Reset(ctx, l.prefix+key); err != nil {
			return err
		}
	}
	return nil
}
