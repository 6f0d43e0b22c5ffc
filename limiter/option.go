package limiter

import (
	"fmt"
	"log/slog"
	"time"
)

// An Option changes how a [Limiter] works. [New] and [NewLocal] panic if the argument of an option
// is not valid.
type Option func(*settings)

// settings have the values that options set.
type settings struct {
	source     Source // of WithSource, or empty
	prefix     string
	timeout    time.Duration
	maxWait    time.Duration
	maxWaiting int
	hooks      []Hook
	logger     *slog.Logger
	onFailure  FailurePolicy
}

// WithPrefix puts prefix before every key. By default there is no prefix.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// defaultTimeout is far above what a healthy server needs, failovers of a connection included, and
// below what people wait for.
const defaultTimeout = time.Second

// WithTimeout bounds how long a command is under way, over all attempts of the client. When the
// time is over, [OnFailure] applies. A call over several nodes may send more than one command, one
// after another. The default is a second; at 0 or less, only the client bounds the time. The time
// that [Limiter.Wait] sleeps does not count.
//
// The context of a caller never ends a command: see the package comment, "Callers that give up". A
// command that has timed out may still reach the server. What it takes is given back if its answer
// comes. Otherwise tokens of a funnel leak, and tokens of a quota stay used until its period ends.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// OnFailure sets the policy for calls that Redis does not decide. The default is [FailWithError].
func OnFailure(policy FailurePolicy) Option {
	return func(s *settings) {
		if policy < FailWithError || policy > FailLocal {
			panic(fmt.Sprintf("limiter: OnFailure needs one of the constants, not FailurePolicy(%d)", policy))
		}
		s.onFailure = policy
	}
}

// WithLogger sets the logger, which must not be nil. It gets a line when the Limiter begins to
// decide without Redis, and a line when Redis decides again; with [FailWithError], which returns an
// error for each call, it gets neither. With all policies it gets a line once a minute if Redis
// refuses the user or the password, and a line about slots that are left to their TTL. The default
// is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		if logger == nil {
			panic("limiter: WithLogger needs a logger, not nil")
		}
		s.logger = logger
	}
}

// WithHook adds a hook, which must not be nil. Hooks are called in the order of the options.
func WithHook(hook Hook) Option {
	return func(s *settings) {
		if hook == nil {
			panic("limiter: WithHook needs a hook, not nil")
		}
		s.hooks = append(s.hooks, hook)
	}
}

// WithSource restricts the Limiter to the module or to the script. With [FromModule] it never sends
// the script: a server without the module counts as down. With [FromScript] it never sends a
// command of the module. By default it uses the module if the server has it, and otherwise the
// script.
func WithSource(source Source) Option {
	return func(s *settings) {
		if source != FromModule && source != FromScript {
			panic(fmt.Sprintf("limiter: WithSource needs FromModule or FromScript, not %q", source))
		}
		s.source = source
	}
}

// WithMaxWait bounds how long [Limiter.Wait], [Limiter.WaitN], [Limiter.WaitAll] and
// [Limiter.Acquire] wait, even if the context allows more: a caller whose tokens would be due later
// gets [ErrWaitTooLong] at once. So it also bounds the reservations that callers leave behind when
// they give up. At 0 or less, nobody waits. By default the context alone bounds the wait.
func WithMaxWait(maxWait time.Duration) Option {
	return func(s *settings) { s.maxWait = max(maxWait, 0) }
}

// WithMaxWaiting bounds how many callers of [Limiter.Acquire] wait in one line, which is of one
// Limiter and for the same slots: if n callers, at least 1, wait already, the next one gets
// [ErrTooManyWaiting] at once. The caller that asks Redis counts, and so do callers that lack only
// tokens. By default nothing bounds the number.
func WithMaxWaiting(n int) Option {
	return func(s *settings) {
		if n < 1 {
			panic(fmt.Sprintf("limiter: WithMaxWaiting needs a number of at least 1, not %d", n))
		}
		s.maxWaiting = n
	}
}
