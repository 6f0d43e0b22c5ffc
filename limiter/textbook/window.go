package textbook

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Window is a set of sliding windows in Redis or Valkey, each a sorted set that has a member for
// each allowed call, scored by its time in microseconds. Make it with [NewWindow].
//
// The book sends ZADD, ZREMRANGEBYSCORE, ZCARD and EXPIRE in a pipeline. Its bugs:
//
//   - It adds the call before it counts. A limited call stays in the set, and a user who keeps
//     calling is limited forever. Here only an allowed call is added.
//   - Two clients at once both add their call and then both count two: both are limited where one
//     fitted. Here a script counts and adds atomically.
//   - The millisecond is both member and score: two calls in one millisecond count once. Here
//     members are random.
//   - Scores come from the clocks of clients. A clock that is ahead removes what others should still
//     count. Here all calls go by the server's clock.
//   - Any number is accepted. A period of 0 allows every call. Here it is an error.
//
// Memory grows with the number of calls: some 40 bytes for each, and up to 120 where a key has more than
// 128. A window of a million calls takes up to 120 MB, for one user.
type Window struct {
	// Now replaces the server's clock, for tests. Set it before the first call. Sorted sets always
	// expire by the server's clock.
	Now func() time.Time

	rdb      redis.Scripter
	maxCount int
	period   time.Duration
}

// NewWindow returns windows that allow maxCount calls, at least 1, in any period, at least a
// microsecond. Other numbers are errors. A fraction of a microsecond in the period is dropped.
// All who use a key must use one period: a shorter one removes what a longer one should count.
func NewWindow(rdb redis.Scripter, maxCount int, period time.Duration) (*Window, error) {
	if maxCount < 1 {
		return nil, fmt.Errorf("textbook: maxCount must be at least 1 call, not %d", maxCount)
	}
	if period < time.Microsecond {
		return nil, fmt.Errorf("textbook: period must be at least 1µs, not %v", period)
	}
	return &Window{rdb: rdb, maxCount: maxCount, period: period}, nil
}

// Allow reports whether the window of a key has room for this call, and counts it if so. Errors
// are the errors of [Hash.Allow]. Beside an error the answer is false.
func (w *Window) Allow(ctx context.Context, key string) (bool, error) {
	return run(ctx, w.rdb, windowScript, key, w.Now, w.maxCount, w.period.Microseconds(), rand.Text())
}

var windowScript = redis.NewScript(`
local max_count, period, member = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = tonumber(ARGV[4]) or time[1] * 1000000 + time[2]

-- After a clock that was set back, calls count as at the latest time.
local latest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
now = math.max(now, tonumber(latest or now))

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - period)
if redis.call('ZCARD', KEYS[1]) >= max_count then
    return 0
end
redis.call('ZADD', KEYS[1], now, member)
redis.call('PEXPIREAT', KEYS[1], math.ceil((now + period) / 1000))
return 1
`)
