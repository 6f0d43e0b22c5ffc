package window

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrPeriod means that a period is not above 0.
var ErrPeriod = errors.New("window: period must be above 0")

// ErrMaxCount means that a count is below 1.
var ErrMaxCount = errors.New("window: maxCount must be at least 1")

// grace is how much longer than the period a key is kept, for calls that take that
// long to the server.
const grace = time.Second

// Windows is a set of sliding windows, each under its key in Redis. Make one with
// [New]; all methods may be called from any number of goroutines.
type Windows struct {
	rdb redis.UniversalClient
	now func() time.Time

	// Members are name, which no other Windows has, and a number: shorter than a
	// UUID, and as unique.
	name   string
	number atomic.Uint64
}

// New returns the windows that clients of rdb share: a client of one server, of
// servers behind Sentinel, of a cluster, or a ring. The time comes from now, between
// 1970 and 2255; nil means time.Now. It sends nothing yet.
func New(rdb redis.UniversalClient, now func() time.Time) *Windows {
	if now == nil {
		now = time.Now
	}
	name := make([]byte, 9)
	rand.Read(name)
	return &Windows{rdb: rdb, now: now, name: base64.RawURLEncoding.EncodeToString(name)}
}

// IsActionAllowed reports whether user may do action now, and counts the call if so:
// no more than maxCount calls, at least 1, are allowed in any period, above 0. The
// period is rounded up to whole microseconds.
//
// All calls for one user and action must have the same period: a shorter one
// removes what a longer one should count. MaxCount may change from call to call.
//
// The error is [ErrPeriod], [ErrMaxCount] or that of Redis; beside an error the
// answer is false. A call that fails on its way, or whose context is done, may
// still be counted. A key that holds another type is a WRONGTYPE error and keeps
// its value, but will expire, because a transaction continues after an error.
func (w *Windows) IsActionAllowed(ctx context.Context, user, action string, period time.Duration, maxCount int) (bool, error) {
	if period <= 0 {
		return false, fmt.Errorf("%w, not %v", ErrPeriod, period)
	}
	if maxCount < 1 {
		return false, fmt.Errorf("%w, not %d", ErrMaxCount, maxCount)
	}
	now := w.now().UnixMicro()
	call := call{
		key:     Key(user, action),
		member:  w.name + strconv.FormatUint(w.number.Add(1), 36),
		score:   float64(now),
		horizon: now - int64((period-1)/time.Microsecond+1),
	}
	allowed, latest, err := call.decide(ctx, w.rdb, period, maxCount)
	if err == nil && allowed && latest > call.score {
		allowed, err = call.move(ctx, w.rdb, latest)
	}
	if err != nil {
		return false, fmt.Errorf("window: %w", err)
	}
	return allowed, nil
}

// Reset removes all calls of that user and action.
func (w *Windows) Reset(ctx context.Context, user, action string) error {
	if err := w.rdb.Del(ctx, Key(user, action)).Err(); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	return nil
}

// A call is one member of a sorted set. Scores are microseconds since 1970,
// which a float64 holds exactly until the year 2255.
type call struct {
	key, member string
	score       float64
	horizon     int64 // members with this score or a lower one are outside of the period
}

// decide asks for the decision, and for the highest score in the set after it.
func (c *call) decide(ctx context.Context, rdb redis.UniversalClient, period time.Duration, maxCount int) (allowed bool, latest float64, err error) {
	var recorded *redis.IntCmd
	var last *redis.ZSliceCmd
	_, err = rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRemRangeByScore(ctx, c.key, "-inf", strconv.FormatInt(c.horizon, 10))
		pipe.ZAdd(ctx, c.key, redis.Z{Score: math.Inf(1), Member: c.member})
		pipe.ZRemRangeByRank(ctx, c.key, -1, int64(maxCount)-1)
		recorded = pipe.ZAddNX(ctx, c.key, redis.Z{Score: c.score, Member: c.member})
		pipe.ZRemRangeByScore(ctx, c.key, "+inf", "+inf")
		pipe.PExpire(ctx, c.key, period+min(grace, math.MaxInt64-period))
		last = pipe.ZRangeWithScores(ctx, c.key, -1, -1)
		return nil
	})
	if err != nil {
		return false, 0, err
	}
	if len(last.Val()) > 0 {
		latest = last.Val()[0].Score
	}
	return recorded.Val() == 1, latest, nil
}

// move gives the member of an allowed call the score of a later one that was there
// before it. When the member is gone, the call is limited, because it
// would not be counted.
func (c *call) move(ctx context.Context, rdb redis.UniversalClient, latest float64) (bool, error) {
	moved, err := rdb.ZAddArgs(ctx, c.key, redis.ZAddArgs{
		XX: true, Ch: true, Members: []redis.Z{{Score: latest, Member: c.member}},
	}).Result()
	return moved == 1, err
}
