-- The arithmetic of CL.THROTTLE as a script, in microseconds instead of
-- nanoseconds, because a double holds integers of only 53 bits.
--
-- KEYS: the funnel. ARGV: capacity, count, period in seconds, quantity.
-- Returns the same as CL.THROTTLE: limited, limit, remaining, retry_after, reset_after.

local capacity, quantity = tonumber(ARGV[1]), tonumber(ARGV[4])
local interval = math.floor(ARGV[3] * 1000000 / ARGV[2])
local tolerance, increment = interval * capacity, interval * quantity

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local tat = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
local new = tat + increment

local limited, level, retry = 0, new - now, -1
if new - tolerance > now then
    limited, level = 1, tat - now
    if increment <= tolerance then
        retry = math.ceil((new - tolerance - now) / 1000000)
    end
elseif quantity > 0 then
    redis.call('SET', KEYS[1], string.format('%.0f', new), 'PXAT', string.format('%.0f', math.ceil(new / 1000)))
end
local remaining = math.max(0, math.floor((tolerance - level) / interval))
return {limited, capacity, remaining, retry, math.ceil(level / 1000000)}
