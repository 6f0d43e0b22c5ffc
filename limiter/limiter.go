package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	redisclient "github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/internal/isnil"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/guard"
	"funnel/limiter/internal/local"
	"funnel/limiter/internal/nodes"
	"funnel/limiter/internal/redis"
	"funnel/limiter/internal/undo"
	"funnel/limiter/internal/wait"
)

// A Limiter limits calls by funnels, slots and quotas: in Redis if it is made by [New], in this
// process if it is made by [NewLocal]. All methods may be called from any number of goroutines.
//
// A method returns an error if there is no decision: [ErrInvalid] for a call that is wrong, the
// cause of a context that is done, and, unless [OnFailure] says otherwise, [ErrUnavailable] if
// Redis does not decide. A Result that comes with an error is limited.
type Limiter struct {
	settings
	words wordsCache
	now   func() time.Duration // since the Limiter was made: a wall clock that steps does not change it
	wall  func() time.Time     // tells which period of a quota runs

	backend backend.Backend // decides every call: in this process, or in Redis
	undo    *undo.Undo      // gives back, by calls that backend decides
	lines   slotLines       // of callers that wait for slots
}

// A Client sends the commands of a [Limiter]. All clients of go-redis do: of one server, of servers
// behind Sentinel, of a cluster, of a ring, and clients that pipeline (AutoPipeline).
type Client interface {
	Process(ctx context.Context, command redisclient.Cmder) error
}

// New returns a Limiter that uses rdb. It sends nothing yet. Share one Limiter between all
// requests: it remembers whether the server has the module.
//
// New panics if rdb is nil or a pipeline, or if an option is not valid.
func New(rdb Client, options ...Option) *Limiter {
	if isnil.Is(rdb) {
		panic("limiter: New needs a client of Redis, not nil")
	}
	_, isPipeline := rdb.(redisclient.Pipeliner)
	if isPipeline {
		panic(fmt.Sprintf("limiter: New needs a client of Redis, not a %T: it sends nothing before Exec. "+
			"To pipeline the calls of many goroutines, use AutoPipeline of the client", rdb))
	}
	l := NewLocal(options...)
	l.useRedis(rdb)
	return l
}

// useRedis makes the Limiter ask Redis. A call goes from one backend to the next: nodes, which
// split it if its keys are on several nodes; the policy of [OnFailure]; the guard of a node; and
// Redis.
func (l *Limiter) useRedis(rdb Client) {
	here := l.backend
	server := redis.New(rdb, string(l.source), l.now, l.wall)
	l.undo = undo.New(l.sendRefund, server.Node, l.logger)
	guarded := guard.NewPerNode(server, l.undo, l.timeout, l.now)
	fallback := guard.NewFallback(guarded, here, l.instead(here), l.onFailure.String(), l.logger, l.now)
	l.backend = nodes.New(fallback, l.undo, server.IsSpread(), l.now, l.wall)
}

// instead returns what decides if Redis fails, or nil if the caller gets the error.
func (l *Limiter) instead(here backend.Backend) guard.Decider {
	switch l.onFailure {
	case FailOpen:
		return guard.Open{Wall: l.wall}
	case FailClosed:
		return guard.Closed{Wall: l.wall}
	case FailLocal:
		return here
	}
	return nil
}

// NewLocal returns a Limiter that keeps funnels, slots and quotas in this process and never asks
// Redis: for tests, and for programs of one process. Options that concern Redis have no effect. In
// a bubble of testing/synctest the Limiter uses the clock of the bubble.
//
// NewLocal panics if an option is not valid.
func NewLocal(options ...Option) *Limiter {
	began := time.Now()
	return newLocal(func() time.Duration { return time.Since(began) }, time.Now, options)
}

func newLocal(now func() time.Duration, wall func() time.Time, options []Option) *Limiter {
	defaults := settings{
		timeout: defaultTimeout, maxWait: wait.Forever, maxWaiting: math.MaxInt, logger: slog.Default()}
	l := &Limiter{settings: defaults, now: now, wall: wall, lines: newSlotLines(now)}
	for _, option := range options {
		option(&l.settings)
	}
	l.backend = local.New(now, wall)
	l.undo = undo.New(l.sendRefund, func(string) string { return "" }, l.logger)
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, at least 0, from the funnel or the quota of that key: all of them,
// or none if they do not fit. A quantity above the capacity never fits: RetryAfter is then
// [NoRetry].
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.invocationFor(call.Reserve, key, limit, quantity)) // with a MaxWait of 0
}

// AllowAtMost takes as many whole tokens as fit, up to quantity, which is at least 0.
// Result.Allowed is the number of tokens that it took. If none fits, the call is limited, and
// RetryAfter is the time until one fits.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.invocationFor(call.Take, key, limit, quantity))
}

// Peek decides as Allow would, and takes nothing: Allowed is 0, and Remaining and ResetAfter tell
// the state as it is. A client that reads from replicas sends it to a replica.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.decideOne(ctx, l.invocationFor(call.Peek, key, limit, 1))
}

// Charge accounts for quantity tokens that were used, at least 0, even if they do not fit. The
// quantity may be above the capacity. A funnel that is overfull then limits calls until enough has
// leaked, and a quota until its period ends. Result.RetryAfter is the time until then, or 0 if
// nothing is overfull.
//
// After [ErrUnavailable] the tokens may have been charged, because an answer may be lost: a second
// Charge may charge them twice. To charge while work goes on, take a few tokens by AllowN, and call
// [Limiter.Settle] with the running total.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.decideOne(ctx, l.invocationFor(call.Charge, key, limit, quantity))
}

// decideOne decides a call of one row.
func (l *Limiter) decideOne(ctx context.Context, inv *invocation) (Result, error) {
	_, err := l.decide(ctx, inv)
	return inv.results[0], err
}

// Reset deletes a key by DEL, whatever it holds. A funnel is empty then, and of a quota nothing is
// used. Slots end: others may have them at once, and holders learn at their next renewal that their
// slots are lost (see [Acquisition.Context]), so their work is cancelled. Tokens and slots that
// this process has granted for [FailLocal] are forgotten, too.
//
// Reset returns [ErrUnavailable] if Redis does not answer, whatever [OnFailure] says.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.backend.Reset(ctx, l.prefix+key)
}

// Drain waits until everything that is under way in the background has been answered once, or ctx
// is done: calls whose callers have given up, what is given back for them, [Limiter.SettleSoon] and
// [Acquisition.ReleaseSoon]. Calls may go on meanwhile and after. Left is how much is uncertain in
// the end: calls without an answer, and slots that are still asked back. The error is the cause of
// ctx if it is done before.
//
// If Redis does not answer such calls, Drain returns only when ctx is done: give ctx a deadline of
// a few seconds. A number above 0 need not be a leak: a slot that a lost call may have taken counts
// until it is certain that the call took none.
//
// Programs call Drain before they end, after http.Server.Shutdown or grpc.Server.GracefulStop.
// Without it, a slot that was just to be given back is held until its TTL is over.
func (l *Limiter) Drain(ctx context.Context) (left int, err error) { return l.undo.Drain(ctx) }
