package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A window lets no more than count calls through in any period. It remembers when each call that
// went through was made: each is a member of a sorted set, and its score is the time in
// microseconds.
type window struct {
	rdb *redis.Client
	limit
}

func (w *window) allow(ctx context.Context, key string) (bool, error) {
	return windowScript.Run(ctx, w.rdb, []string{key}, w.count, w.period.Microseconds()).Bool()
}

// A server runs a script from beginning to end before it does anything else. With the commands in a
// pipeline, or in MULTI, a call is added before anybody knows whether it fits, and a caller who
// keeps calling is never let through.
var windowScript = redis.NewScript(`
local count, period = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')  -- of the server: clients' clocks differ
local now = time[1] * 1000000 + time[2]

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - period))
if redis.call('ZCARD', KEYS[1]) >= count then
    return 0
end

-- Members differ, even if two calls come in the same microsecond.
local score = string.format('%.0f', now)
redis.call('ZADD', KEYS[1], score, score .. '-' .. redis.call('ZCOUNT', KEYS[1], score, score))
redis.call('PEXPIRE', KEYS[1], math.ceil(period / 1000))
return 1
`)
