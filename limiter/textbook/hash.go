package textbook

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hash is a set of funnels in Redis or Valkey, each a hash with the fields water and lastTime. All
// processes that use a key share its funnel. Make it with [NewHash].
//
//	> hgetall 42:reply
//	1) "water"
//	2) "15"
//	3) "lastTime"
//	4) "1795238179689988"
//
// The bugs of the book:
//
//   - It reads the hash, computes in the client and writes it back: two clients at once both get
//     the last token, or need a lock. Here a script does all three atomically.
//   - It counts whole seconds. Two calls around the end of a second get a whole second's leak.
//     Here lastTime counts microseconds.
//   - It keeps each hash for a day. Most funnels drain within seconds, and their hashes stay; one
//     that takes longer expires too early and allows a full burst. Here the hash expires when the
//     funnel has drained.
//   - It compares rounded numbers exactly, a clock that is set back pours water in, and any number
//     is accepted, as in [Local]. NaN allows every call.
//
// A funnel takes some 180 bytes of the server's memory, key and expiry included.
type Hash struct {
	// Now replaces the server's clock, for tests. Set it before the first call. Hashes always
	// expire by the server's clock.
	Now func() time.Time

	rdb         redis.Scripter
	capacity    int
	leakingRate float64
}

// NewHash returns funnels that hold capacity tokens, from 1 to 1e6, and leak leakingRate tokens
// per second, from 1e-9 to 1e6. Other numbers are errors. The limit is not stored: another Hash
// with another limit finds the same water under the same key.
func NewHash(rdb redis.Scripter, capacity int, leakingRate float64) (*Hash, error) {
	if err := checkFunnel(capacity, leakingRate); err != nil {
		return nil, err
	}
	return &Hash{rdb: rdb, capacity: capacity, leakingRate: leakingRate}, nil
}

// Allow takes one token from the funnel of a key, and reports whether it fitted. An error is the
// server's, such as WRONGTYPE for a key of another type, or that of go-redis and the context.
// Beside an error the answer is false.
func (h *Hash) Allow(ctx context.Context, key string) (bool, error) {
	return run(ctx, h.rdb, hashScript, key, h.Now, h.capacity, h.leakingRate)
}

var hashScript = redis.NewScript(`
local capacity, leaking_rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(ARGV[3]) or time[1] * 1000000 + time[2]

local held = redis.call('HMGET', KEYS[1], 'water', 'lastTime')
local water, last_time = tonumber(held[1] or 0), tonumber(held[2] or now)
if not water or not last_time then
    return redis.error_reply('ERR the fields water and lastTime are not numbers: delete the key or use another')
end

-- A clock that was set back leaks nothing, and pours nothing in.
if now > last_time then
    water = math.max(0, water - (now - last_time) * leaking_rate / 1000000)
    last_time = now
end

-- As in Local, a call may be a millionth of a token early.
if water + 1 > capacity + 1e-6 then
    return 0
end
water = water + 1
redis.call('HSET', KEYS[1], 'water', water, 'lastTime', last_time)
local drained = math.ceil(last_time / 1000 + water / leaking_rate * 1000)
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', drained))
return 1
`)
