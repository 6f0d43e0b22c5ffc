package hashfunnel

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra/local"
)

// ErrCapacity means that a capacity is out of range.
var ErrCapacity = errors.New("hashfunnel: capacity must be from 1 to 1e9")

// Script is the script in Lua, for EVAL with the key, and then the capacity and the
// leaking rate in tokens per second. It replies 1 when the call is allowed, else 0.
//
//go:embed funnel.lua
var Script string

var script = redis.NewScript(Script)

// Funnels is a set of funnels, each in its hash in Redis. Make one with [New]; all
// methods may be called from any number of goroutines.
type Funnels struct {
	rdb redis.UniversalClient
	now func() time.Time
}

// New returns the funnels that clients of rdb share: a client of one server, of
// servers behind Sentinel, of a cluster, or a ring. The time comes from now, between
// 1970 and 2255; nil means the clock of the server, which is for everything but tests:
// all clients share it, and hashes expire by it. New sends nothing yet.
func New(rdb redis.UniversalClient, now func() time.Time) *Funnels {
	return &Funnels{rdb: rdb, now: now}
}

// IsActionAllowed takes one token from the funnel in which user does action, which
// holds capacity tokens, from 1 to 1e9, and leaks leakingRate tokens per second,
// above 0 and at most 1e9, and reports whether it fitted. Both may change from call to
// call.
//
// The error is [ErrCapacity], one of [local.NewRate], or that of Redis, such as
// WRONGTYPE for a key that holds another type; beside an error the answer is
// false. A call that fails on its way, or whose context is done, may still take one.
func (f *Funnels) IsActionAllowed(ctx context.Context, user, action string, capacity int, leakingRate float64) (bool, error) {
	if capacity < 1 || capacity > 1e9 {
		return false, fmt.Errorf("%w, not %d", ErrCapacity, capacity)
	}
	if _, err := local.NewRate(int64(capacity), leakingRate); err != nil {
		return false, fmt.Errorf("hashfunnel: %w, not capacity %d, leaking rate %v", err, capacity, leakingRate)
	}
	arguments := []any{capacity, leakingRate}
	if f.now != nil {
		arguments = append(arguments, f.now().UnixMicro())
	}
	allowed, err := script.Run(ctx, f.rdb, []string{Key(user, action)}, arguments...).Bool()
	if err != nil {
		return false, fmt.Errorf("hashfunnel: %w", err)
	}
	return allowed, nil
}

// Reset empties the funnel in which user does action.
func (f *Funnels) Reset(ctx context.Context, user, action string) error {
	if err := f.rdb.Del(ctx, Key(user, action)).Err(); err != nil {
		return fmt.Errorf("hashfunnel: %w", err)
	}
	return nil
}
