-- Slots as most people write them: a sorted set of holders, scored by the millisecond at which
-- their slots end.
--
-- KEYS: the slots. ARGV: limit, time to live in seconds, holder.
-- Returns 1 if the holder has a slot, or 0 if none is free.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ttl = ARGV[2] * 1000

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
    return 0
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ttl)
return 1
