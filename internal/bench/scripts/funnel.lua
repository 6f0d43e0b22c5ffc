-- The funnel of the seed documents: a hash with the water and the time of its last
-- change. Unlike there, time is taken in microseconds rather than in seconds, and
-- the hash expires when the funnel has run empty rather than after a day.
--
-- KEYS: the funnel. ARGV: capacity, count, period in seconds, quantity.
-- Returns 1 if the water fitted, else 0.

local capacity, quantity = tonumber(ARGV[1]), tonumber(ARGV[4])
local leak = ARGV[2] / (ARGV[3] * 1000000)

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local water = 0
local held = redis.call('HMGET', KEYS[1], 'water', 'lastTime')
if held[1] then
    water = math.max(0, held[1] - (now - held[2]) * leak)
end

water = water + quantity
if water > capacity then
    return 0
end
redis.call('HSET', KEYS[1], 'water', water, 'lastTime', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(water / leak / 1000))
return 1
