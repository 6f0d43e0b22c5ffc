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

// WithTimeout limits the time that a method waits for Redis, all attempts of the
// client together. At 0 or less, only the context and the client limit it. When it is
// over, [OnFailure] applies. [Limiter.Wait] and [Limiter.Do] wait longer: it applies
// to each of their calls.
//
// Without it, a client of go-redis with its default options took two seconds to
// give up without a server, and ten with a server that hangs (v9.23, measured). A
// call that was given up may still reach the server, and pour.
func WithTimeout(timeout time.Duration) Option {
	return func(l *Limiter) { l.timeout = timeout }
}

// OnFailure sets what to do when Redis does not answer; [FailWithError] is the
// default.
func OnFailure(failure Failure) Option {
	return func(l *Limiter) { l.failure.policy = failure }
}

// WithLogger sets the logger for the beginning and the end of deciding without Redis.
// The default is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(l *Limiter) { l.failure.logger = logger }
}

// WithHook adds a hook; hooks are called in order.
func WithHook(hook Hook) Option {
	return func(l *Limiter) { l.hooks = append(l.hooks, hook) }
}

// WithClock replaces the clock of this process, for tests. Funnels in the server go by
// the clock of the server all the same.
func WithClock(clock Clock) Option {
	return func(l *Limiter) { l.clock = clock }
}

// WithPrefilter limits calls that Redis would surely limit without asking it. The
// Limiter remembers, from each reply, how full a funnel is at least; it saves the
// round trip for as long as that alone limits a call, by the clock of this process.
//
// It never limits a call that Redis would allow at that instant, but for two cases:
// funnels that others empty (DEL, eviction, a failover that loses calls) seem full
// here until they would have drained, and clocks of server and process
// that run at different speeds disagree by that difference. It takes some 100 bytes
// for each funnel that is not empty.
func WithPrefilter() Option {
	return func(l *Limiter) { l.prefilter.enabled = true }
}

// A Clock tells the time and waits.
type Clock interface {
	Now() time.Time

	// Sleep returns nil after d, or the cause when ctx is done before.
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
