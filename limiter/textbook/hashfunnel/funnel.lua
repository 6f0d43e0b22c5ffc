-- A funnel in a hash: water is how many tokens it held at lastTime.
--
--   EVAL script 1 key capacity leaking_rate [now]
--
-- takes one token from a funnel that holds capacity tokens and leaks leaking_rate
-- tokens per second, and replies 1 if it fitted and 0 if not. Now, in microseconds
-- since 1970, takes the place of the server's clock, for tests.

-- The level is a floating point number: a call that comes just in time must not be
-- limited because of rounding errors.
local TOLERANCE = 1e-6

local capacity, leaking_rate = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = tonumber(ARGV[3])
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end

local held = redis.call('HMGET', KEYS[1], 'water', 'lastTime')
local water, last_time = tonumber(held[1] or 0), tonumber(held[2] or now)
if not water or not last_time then
    return redis.error_reply('ERR the key does not hold a funnel: its fields water and lastTime are not numbers')
end

-- Nothing leaks, and nothing is added, while a clock that was set back catches up.
if now > last_time then
    water = math.max(0, water - (now - last_time) * leaking_rate / 1000000)
    last_time = now
end

if water + 1 > capacity + TOLERANCE then
    return 0
end
water = water + 1
redis.call('HSET', KEYS[1], 'water', water, 'lastTime', last_time)
-- The funnel is empty then, which is the same as one that was never used.
redis.call('PEXPIREAT', KEYS[1], math.ceil(last_time / 1000 + water / leaking_rate * 1000))
return 1
