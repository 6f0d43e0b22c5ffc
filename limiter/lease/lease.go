// Package lease limits hot keys with few calls to Redis. Its [Leases] take tokens ahead and hand
// them to the callers of this process. Callers who would ask at the same time share a call.
//
//	leases := lease.New(l, 50*time.Millisecond)
//	result, err := leases.Allow(ctx, "tenant:42", limiter.PerSecond(2000).Burst(400))
//
// A hot key costs about two calls in d, here 50 ms. In any stretch of time all processes together
// hand out at most capacity + (elapsed + d) / T tokens, with the largest of their d. A token leaks
// in T. Tokens ahead that are not used within d lapse.
//
// After a reply that limited, calls that Redis would certainly limit are limited here. Where Redis
// had too few tokens for a shared call, all are until d is over. Both end after 5 seconds. With d
// of 0, Leases take nothing ahead: they are a local pre-filter.
//
// Where Redis fails, tokens ahead are used until they lapse, and for a second callers ask alone.
package lease

import (
	"context"
	"sync"
	"time"

	"funnel/internal/idle"
	"funnel/limiter"
)

// A Limiter decides calls: a [limiter.Limiter], or what wraps one.
type Limiter interface {
	AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
	AllowAtMost(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
}

// Leases decide calls as their Limiter does, with fewer calls to Redis. Make them with [New].
// All methods may be called from any number of goroutines.
type Leases struct {
	limiter Limiter
	span    time.Duration // d
	hook    limiter.Hook
	now     func() time.Time
	mutex   sync.RWMutex // of the map. Lock order: this one, then that of a lease.
	leases  idle.Map[id, *lease]
}

type id struct {
	key   string
	limit limiter.Limit
}

// An Option changes how [Leases] work.
type Option func(*Leases)

// WithHook sets the hook for decisions of the Leases. Those of the Limiter's AllowN are told to
// the Limiter's hooks alone. Event.Command is reserve, and Event.Key has no prefix.
//
// The Limiter's hooks see calls for tokens, as take. One that asks the Leases has to pass on its
// context: with another it may wait for the very call that waits for it.
func WithHook(hook limiter.Hook) Option { return func(s *Leases) { s.hook = hook } }

// New returns Leases that ask l, and use tokens within d of taking them. At 0 or less they take
// none ahead. Calls for tokens end by [limiter.WithTimeout], not by a caller's context.
func New(l Limiter, d time.Duration, options ...Option) *Leases {
	s := &Leases{limiter: l, span: max(d, 0), now: time.Now}
	for _, option := range options {
		option(s)
	}
	return s
}

// Allow is AllowN of one token.
func (s *Leases) Allow(ctx context.Context, key string, limit limiter.Limit) (limiter.Result, error) {
	return s.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, all or none, as [limiter.Limiter.AllowN] does. The Limiter decides
// on 0 tokens, on more than 1 and a tenth of the capacity, and, if d is 0, on more than 1.
//
// Decisions without a reply have the Path [limiter.PathLease]: Remaining is what the last reply
// left and what is ahead, and ResetAfter is that of the last reply, less the time since. The
// Limiter settles these results like its own.
func (s *Leases) AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
	var begin time.Time
	if s.hook != nil {
		begin = s.now()
	}
	got := outcome{alone: true}
	canShare := quantity == 1 || quantity > 1 && quantity <= limit.Capacity/10 && s.span > 0
	if canShare && ctx.Err() == nil {
		s.find(id{key, limit}).decide(ctx, quantity, &got)
	}
	if got.alone { // the Limiter also says why a context is done, or a limit not valid
		return s.limiter.AllowN(ctx, key, limit, quantity)
	}
	if s.hook != nil && !got.told {
		s.hook(ctx, limiter.Event{Command: "reserve", Key: key, Result: got.result, Duration: s.now().Sub(begin)})
	}
	return got.result, got.err
}

// find returns the lease of a key and limit, or nil if the limit is not valid.
func (s *Leases) find(of id) *lease {
	s.mutex.RLock()
	l := s.leases.Get(of)
	s.mutex.RUnlock()
	if l != nil {
		return l
	}
	return s.add(of)
}

func (s *Leases) add(of id) *lease {
	rate, err := of.limit.Rate()
	if err != nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now, l := s.now(), s.leases.Get(of)
	if l == nil {
		l = &lease{Leases: s, id: of, interval: time.Duration(rate.EmissionInterval()), lastCall: now}
		s.leases.Add(of, l, func(_ id, other *lease) bool { return other.isIdle(now) })
	}
	return l
}
