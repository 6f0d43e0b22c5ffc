package limiter

import (
	"fmt"
	"log/slog"
	"time"
)

// An Option changes how a [Limiter] works. One whose argument is not valid panics in [New] and
// [NewLocal].
type Option func(*settings)

// settings are what options set.
type settings struct {
	source     Source // of WithSource, or empty
	prefix     string
	timeout    time.Duration
	maxWait    time.Duration
	maxWaiting int
	hooks      []Hook
	logger     *slog.Logger
	policy     FailurePolicy
}

// WithPrefix puts prefix before every key. By default keys are sent as they are.
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.prefix = prefix }
}

// WithTimeout limits the time that a method waits for Redis, all attempts of the
// client together. At 0 or less, only the context and the client limit it. When it is
// over, [OnFailure] applies. It does not count how long [Limiter.Wait] sleeps.
//
// Without it, a client of go-redis with its default options took two seconds to give up without a
// server, and ten with a server that hangs (v9.23, measured). A call that was given up may still
// reach the server, and take tokens.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// OnFailure sets what to do when Redis does not answer; [FailWithError] is the default. It
// accepts the constants of [FailurePolicy].
func OnFailure(policy FailurePolicy) Option {
	return func(s *settings) {
		if policy < FailWithError || policy > FailLocal {
			panic(fmt.Sprintf("limiter: OnFailure needs one of the constants, not FailurePolicy(%d)", policy))
		}
		s.policy = policy
	}
}

// WithLogger sets the logger for the beginning and the end of deciding without Redis. The
// default is [slog.Default]. The logger must not be nil.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		if logger == nil {
			panic("limiter: WithLogger needs a logger, not nil")
		}
		s.logger = logger
	}
}

// WithHook adds a hook, which must not be nil; hooks are called in order.
func WithHook(hook Hook) Option {
	return func(s *settings) {
		if hook == nil {
			panic("limiter: WithHook needs a hook, not nil")
		}
		s.hooks = append(s.hooks, hook)
	}
}

// WithSource has the Limiter ask Redis in one way only. WithSource([FromModule]) never falls back to the
// script: a server without the module counts as down. WithSource([FromScript]) never asks for the
// module. By default the Limiter uses the module if there is one.
func WithSource(source Source) Option {
	return func(s *settings) {
		if source != FromModule && source != FromScript {
			panic(fmt.Sprintf("limiter: WithSource needs FromModule or FromScript, not %q", source))
		}
		s.source = source
	}
}

// WithMaxWait bounds how long [Limiter.Wait], [Limiter.Acquire] and their like wait, whatever the context allows: a
// caller that would have to wait longer for tokens gets an error at once. It also bounds the reservations that callers
// leave behind when they give up. At 0 or less, they do not wait.
func WithMaxWait(maxWait time.Duration) Option {
	return func(s *settings) { s.maxWait = max(maxWait, 0) }
}

// WithMaxWaiting bounds how many callers of [Limiter.Acquire] wait for one key and Slots, at least 1: a caller that
// finds n waiting, including the one that asks and callers that lack tokens, gets [ErrTooManyWaiting] at once. By
// default nothing bounds the number.
func WithMaxWaiting(n int) Option {
	return func(s *settings) {
		if n < 1 {
			panic(fmt.Sprintf("limiter: WithMaxWaiting needs a number of at least 1, not %d", n))
		}
		s.maxWaiting = n
	}
}
