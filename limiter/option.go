package limiter

import (
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
// over, [OnFailure] applies. It does not count how long [Limiter.Wait] sleeps.
//
// Without it, a client of go-redis with its default options took two seconds to
// give up without a server, and ten with a server that hangs (v9.23, measured). A
// call that was given up may still reach the server, and take tokens.
func WithTimeout(timeout time.Duration) Option {
	return func(l *Limiter) { l.timeout = timeout }
}

// OnFailure sets what to do when Redis does not answer; [FailWithError] is the
// default. [New] panics for other values than the constants.
func OnFailure(failure Failure) Option {
	return func(l *Limiter) { l.failure.policy = failure }
}

// WithLogger sets the logger for the beginning and the end of deciding without Redis, and for
// a server on which [WithLease] has no effect.
// The default is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(l *Limiter) { l.failure.logger = logger }
}

// WithHook adds a hook; hooks are called in order.
func WithHook(hook Hook) Option {
	return func(l *Limiter) { l.hooks = append(l.hooks, hook) }
}

// WithModuleOnly has the Limiter use the commands of the module only: a server without it
// has failed. By default the Limiter uses the module where there is one.
func WithModuleOnly() Option {
	return func(l *Limiter) { l.only = append(l.only, PathModule) }
}

// WithScriptOnly has the Limiter use the script only.
func WithScriptOnly() Option {
	return func(l *Limiter) { l.only = append(l.only, PathScript) }
}

// WithLongestWait bounds how long [Limiter.Wait] and its like wait, whatever the deadline of
// the context: a caller that would have to wait longer gets an error at once. It also bounds
// the reservations that callers leave behind when they give up. Without it they wait as long
// as the context allows; at 0 or less, they do not wait at all.
func WithLongestWait(longest time.Duration) Option {
	return func(l *Limiter) { l.longestWait = max(longest, 0) }
}

// WithPrefilter limits calls that Redis would surely limit without asking it. The
// Limiter remembers, from each reply, how full a funnel is at least; it saves the
// round trip for as long as that alone limits a call, by the clock of this process.
//
// It never limits a call that Redis would allow at that instant, but for two cases:
// funnels that others empty (DEL, refunds, eviction, a failover that loses calls) seem
// full here until they would have drained, and clocks of server and process
// that run at different speeds disagree by that difference. It takes some 100 bytes
// for each funnel that is not empty.
func WithPrefilter() Option {
	return func(l *Limiter) { l.prefilter.enabled = true }
}

// WithLease has callers of [Limiter.Allow] and [Limiter.AllowN] for one key and limit share
// calls to Redis, and takes tokens ahead for those who come within span. A hot key then costs
// each process about two calls in span, whatever the number of callers. Tokens that are not
// used within span lapse.
//
// In any stretch of time, no more than capacity + (elapsed + span) / T tokens are handed out
// over all processes, with their largest span, where T is the emission interval. With a span
// of 0, callers only share calls that would be under way at once, and the bound is exact.
//
// Calls for more than one token and more than a tenth of the capacity go to Redis as without
// leases, and so do those for more than one token where the span is 0. Under a lease, results can be limited for span
// after Redis had fewer tokens than this process wanted, or for as long as one takes to leak,
// up to one second more. [WithPrefilter] has no effect beside it.
func WithLease(span time.Duration) Option {
	return func(l *Limiter) { l.leases.enabled, l.leases.span = true, max(span, 0) }
}
