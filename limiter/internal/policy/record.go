package policy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"funnel/limiter"
)

const (
	// quiet is the time for which every request has to be decided before an outage counts as over.
	// Without it, an outage in which one call of a hundred fails would be a hundred outages.
	quiet = 10 * time.Second

	// again is the time after which requests that are wrong get another line: they go on until
	// somebody mends the program or the key.
	again = time.Minute
)

// A record logs requests that are not decided. An outage gets a line when it begins and a line when
// it ends, however many requests fail meanwhile. Requests that are wrong get a line a minute.
type record struct {
	name    string
	logger  *slog.Logger // nil for slog.Default when a line is logged
	isDown  atomic.Bool  // read without the mutex: decisions matter only during an outage
	mutex   sync.Mutex
	outage  undecided
	invalid undecided
}

// Undecided counts requests that were not decided.
type undecided struct {
	since, last time.Time
	requests    int
}

// note records the outcome of a request.
func (r *record) note(ctx context.Context, err error) {
	switch {
	case err == nil && r.isDown.Load():
		r.decided(ctx)
	case err == nil:
	case errors.Is(err, limiter.ErrInvalid):
		r.wrong(ctx, err)
	default:
		r.failed(ctx, err)
	}
}

func (r *record) log() *slog.Logger {
	if r.logger == nil {
		return slog.Default()
	}
	return r.logger
}

func (r *record) failed(ctx context.Context, err error) {
	r.mutex.Lock()
	now, begins := time.Now(), !r.isDown.Load()
	if begins {
		r.isDown.Store(true)
		r.outage = undecided{since: now}
	}
	r.outage.last = now
	r.outage.requests++
	r.mutex.Unlock() // before it logs: the logger may block
	if begins {
		r.log().ErrorContext(ctx, "rate limits are not decided", "policy", r.name, "error", err)
	}
}

func (r *record) decided(ctx context.Context) {
	r.mutex.Lock()
	down := r.outage
	ends := r.isDown.Load() && time.Since(down.last) >= quiet
	if ends {
		r.isDown.Store(false)
	}
	r.mutex.Unlock()
	if ends {
		r.log().InfoContext(ctx, "rate limits are decided again", "policy", r.name,
			"after", down.last.Sub(down.since), "undecided", down.requests)
	}
}

// wrong records a request that is wrong.
func (r *record) wrong(ctx context.Context, err error) {
	r.mutex.Lock()
	now := time.Now()
	r.invalid.requests++
	logs := r.invalid.last.IsZero() || now.Sub(r.invalid.last) >= again
	requests := r.invalid.requests
	if logs {
		r.invalid = undecided{last: now}
	}
	r.mutex.Unlock()
	if logs {
		r.log().ErrorContext(ctx, "rate limits cannot be decided: the limit, the cost or the key is not valid",
			"policy", r.name, "error", err, "requests", requests)
	}
}
