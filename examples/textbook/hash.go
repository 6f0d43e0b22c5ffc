package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A hash keeps the funnel of a user in Redis, as two numbers: how much water it held, and when. As
// in a process, water is counted by the time that it takes to leak, in microseconds.
type hash struct {
	rdb *redis.Client
	limit
}

func (h *hash) allow(ctx context.Context, key string) (bool, error) {
	return hashScript.Run(ctx, h.rdb, []string{key}, h.count, h.interval().Microseconds()).Bool()
}

// Tutorials read the hash, compute in the client, and write it back: two clients at once both get
// the last token.
var hashScript = redis.NewScript(`
local count, interval = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')  -- of the server: clients' clocks differ
local now = time[1] * 1000000 + time[2]

local held = redis.call('HMGET', KEYS[1], 'water', 'at')
local water, at = tonumber(held[1] or 0), tonumber(held[2] or now)
now = math.max(now, at)  -- nothing leaks while a clock that was set back catches up
water = math.max(0, water - (now - at)) + interval
if water > count * interval then
    return 0
end

redis.call('HSET', KEYS[1], 'water', string.format('%.0f', water), 'at', string.format('%.0f', now))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil((now + water) / 1000)))  -- when it is empty
return 1
`)
