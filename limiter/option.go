package limiter

import (
	"context"
	"log/slog"
	"time"
)

// An Option changes how a [Limiter] works.
type Option func(*Limiter)

// WithPrefix puts prefix before every key. By default keys are sent as they are.
func WithPrefix(prefix string) Option {
	return func(l *Limiter) { l.prefix = prefix }
}

// WithTimeout bounds the time that a method waits for Redis, all attempts of the
// client together; above 0, or there is no bound but those of the context and of the
// client. What [OnFailure] says happens when it is over. [Limiter.Wait] and
// [Limiter.Do] wait longer: it bounds each of their questions.
//
// Without it, a client of go-redis with its default options took two seconds to
// give up where nobody listens, and ten where the server hangs (v9.23, measured). A
// call that was given up may still reach the server, and pour.
func WithTimeout(timeout time.Duration) Option {
	return func(l *Limiter) { l.timeout = timeout }
}

// OnFailure says what happens when Redis cannot be asked; [FailWithError] is the
// default.
func OnFailure(failure Failure) Option {
	return func(l *Limiter) { l.failure.policy = failure }
}

// WithLogger is where the Limiter logs that it has begun to decide without Redis,
// and that this is over. The default is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(l *Limiter) { l.failure.logger = logger }
}

// WithHook tells a hook about every call; several hooks are told in order.
func WithHook(hook Hook) Option {
	return func(l *Limiter) { l.hooks = append(l.hooks, hook) }
}

// WithClock replaces the clock of this process, for tests. The clock of the server
// decides about funnels in the server all the same.
func WithClock(clock Clock) Option {
	return func(l *Limiter) { l.clock = clock }
}

// WithPrefilter answers calls that are surely limited without asking Redis. The
// Limiter remembers, from each reply, how full a funnel is at least; it saves the
// round trip for as long as that alone limits a call, by the clock of this process.
//
// It never limits a call that Redis would allow at that instant, but for two cases:
// funnels that somebody else empties (DEL, eviction, a failover that forgets calls)
// seem full here until they would have drained, and clocks of server and process
// that run at different speeds disagree by that difference. It takes some 100 bytes
// for each funnel that holds water.
func WithPrefilter() Option {
	return func(l *Limiter) { l.prefilter.enabled = true }
}

// A Clock tells the time and waits.
type Clock interface {
	Now() time.Time

	// Sleep returns nil when d is over, or the cause when ctx is done before.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
